"""The vocabulary of Tidings as immutable values. Of our packages it imports only the errors."""

# Print a Python 3.11 or newer that can make environments; say what to do when there is none.
# PYTHON=... names the one to use. Order: versions that the tests run on first.
usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "$PYTHON" ]; then
    usable "$PYTHON" && { command -v "$PYTHON"; exit 0; }
    echo "PYTHON=$PYTHON is not a Python 3.11 or newer with the modules venv and ensurepip." >&2
    exit 3
fi
for name in python3.11 python3.12 python3.13 python3 python; do
    usable "$name" && { command -v "$name"; exit 0; }
done
for name in python3.11 python3.12 python3.13 python3; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        echo "$name is here, but without venv or ensurepip. On Debian and Ubuntu: apt install $name-venv" >&2
        exit 3
    fi
done
echo "Tidings needs Python 3.11 or newer and found none on the PATH." >&2
echo "Install one, or name it: make PYTHON=/path/to/python3 ..." >&2
exit 3

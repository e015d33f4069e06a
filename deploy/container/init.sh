#!/bin/sh
# Certificates and a users file for compose.yaml, once. Run by tests/tidy/test_deploy.py in a folder of its own.
set -eu
folder=${1:-/secrets}
[ -e "$folder/authority.pem" ] || tidings certs new "$folder"
for name in b1 b2 b3; do
    [ -e "$folder/$name.pem" ] || tidings certs broker "$folder" "$name" --host "$name" --host localhost --host 127.0.0.1
done
if [ ! -e "$folder/users.toml" ]; then
    python -c 'import secrets; print(secrets.token_urlsafe(18))' > "$folder/password.txt"
    {
        echo '[users.admin]'
        tidings users key < "$folder/password.txt"
        printf '[[allow]]\nwho = "admin"\naction = ["publish", "subscribe", "observe"]\n'
    } > "$folder/users.toml"
fi
[ "$(id -u)" != 0 ] || chown -R 10001 "$folder"

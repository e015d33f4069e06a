#!/bin/sh
# Build the image without an image registry, run it as compose.yaml does, and say what came of it.
#
#   make release && sh deploy/container/check.sh [python3.11]
#
# The base is made from Debian's packages (mmdebstrap); the wheels of the dependencies are fetched by pip of the
# given interpreter, which has to be of the base's version. buildah's chroot isolation needs root and no daemon;
# it shares the machine's network and processes, so brokers listen on loopback here.
set -eu
python=${1:-python3}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
cd "$(dirname "$0")/../.."
version=$(sed -n 's/__version__ = "\(.*\)"/\1/p' src/tidings/_version.py)
work=$(mktemp -d)
container=
broker=
finish() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    [ -z "$container" ] || buildah rm "$container" >/dev/null
    rm -rf "$work"
}
trap finish EXIT

mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/base.tar"
container=$(buildah from scratch)
buildah add -q "$container" "$work/base.tar" / >/dev/null
buildah run "$container" -- ln -sf python3 /usr/bin/python
buildah commit -q "$container" localhost/debian-python:12 >/dev/null
buildah rm "$container" >/dev/null
container=

mkdir -p "$work/context/dist"
cp "dist/tidings-$version-py3-none-any.whl" "$work/context/dist"
"$python" -m pip download -q -d "$work/context/dist" async-timeout \
    "dist/tidings-$version-py3-none-any.whl[server,fast,console,bridges]"
buildah bud -q --build-arg BASE=localhost/debian-python:12 --build-arg PIP_NO_INDEX=1 \
    -f deploy/container/Containerfile -t "tidings:$version" "$work/context" >/dev/null
echo "built: $(buildah images --format '{{.Name}}:{{.Tag}} {{.Size}}' "localhost/tidings:$version")"

container=$(buildah from --pull-never "localhost/tidings:$version")
in_image() { buildah run -v "$work/secrets:/secrets" "$container" -- "$@"; }
mkdir "$work/secrets"
in_image tidings version | head -1
buildah run --user 0 -v "$work/secrets:/secrets" -v "$PWD/deploy/container/init.sh:/init.sh:ro" "$container" -- \
    /bin/sh /init.sh >/dev/null
ports=$("$python" -c "
import socket
taken = [socket.create_server(('127.0.0.1', 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in taken))")
# shellcheck disable=SC2086
set -- $ports
in_image env TIDINGS_NAME=b1 TIDINGS_LISTEN="127.0.0.1:$1" TIDINGS_HTTP="127.0.0.1:$2" \
    TIDINGS_CONSOLE_LISTEN="127.0.0.1:$3" TIDINGS_SECURITY_USERS=/secrets/users.toml \
    TIDINGS_TLS_AUTHORITY=/secrets/authority.pem TIDINGS_TLS_CERTIFICATE=/secrets/b1.pem \
    TIDINGS_TLS_KEY=/secrets/b1.key sh -c 'echo $$ > /secrets/pid; exec tidings broker' >"$work/broker.log" 2>&1 &
waiting=$!
chmod 777 "$work/secrets"
health="import urllib.request as r; print(r.urlopen('http://127.0.0.1:$2/PATH', timeout=4).read().decode())"
for _ in $(seq 120); do
    in_image python -c "$(echo "$health" | sed s/PATH/readyz/)" >"$work/ready" 2>/dev/null && break
    sleep 0.5
done
echo "ready: $(cat "$work/ready")"
client() {
    in_image env TIDINGS_USER=admin TIDINGS_PASSWORD_FILE=/secrets/password.txt \
        TIDINGS_AUTHORITY=/secrets/authority.pem TIDINGS_BROKER="tidings+tls://127.0.0.1:$1" "$2" "$3" "$4" "$5" "$6"
}
client "$1" tidings pub n=1 --lifetime 60 >/dev/null
echo "received over TLS: $(client "$1" tidings sub --where=EXISTS\ n --count=1 --json)"
broker=$(cat "$work/secrets/pid")
echo "user of the broker: $(stat -c %u "/proc/$broker")"
kill -TERM "$broker"
broker=
wait "$waiting" && echo "drained, exit code 0"

#!/bin/sh
# Installs what one role of image needs, with the package manager that the base has.
# Roles: build (compilers and build tools), cross (what compiles for aarch64 on x86_64, on top of build).
set -eu

role="$1"

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    # The package lists of a base are old or absent; nothing of them stays in the layer.
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
    apt-get clean
    rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log
}

if command -v apt-get >/dev/null; then
    case "$role" in
        build)
            apt_install binutils ca-certificates ccache cmake g++ gcc git make ninja-build patch \
                python3 python3-dev python3-pip python3-venv
            ;;
        cross)
            dpkg --add-architecture arm64
            # Headers and pyconfig.h of the target's Python; the interpreter that runs stays the host's.
            apt_install g++-aarch64-linux-gnu gcc-aarch64-linux-gnu libpython3-dev:arm64
            ;;
        *) echo "unknown role: $role" >&2; exit 2 ;;
    esac
elif command -v dnf >/dev/null; then
    case "$role" in
        # The manylinux builders bring compilers and every Python under /opt/python.
        build)
            dnf install -y ca-certificates cmake git make ninja-build patch
            # ccache is in EPEL; a build without it is slower, and says so.
            dnf install -y ccache || { dnf install -y epel-release && dnf install -y ccache; } || true
            dnf clean all
            ;;
        *) echo "role $role needs a Debian base: this one has dnf" >&2; exit 2 ;;
    esac
else
    echo "no apt-get and no dnf in this base image" >&2
    exit 2
fi

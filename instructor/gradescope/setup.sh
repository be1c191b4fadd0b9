#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image from the zip.
# It needs Ubuntu 22.04 or newer: choose that image in the autograder's settings.
set -euo pipefail

top="${LAB15_AUTOGRADER:-/autograder}"  # another folder in the tests only
source="$top/source"
export DEBIAN_FRONTEND=noninteractive

apt-get update
apt-get install -y --no-install-recommends bubblewrap util-linux

# The first Python that PyTorch has a build for.
python=
for version in 3.12 3.13 3.14 3.11; do
    if apt-get install -y --no-install-recommends "python$version" "python$version-venv"; then
        python="python$version"
        break
    fi
done
if [ -z "$python" ]; then
    echo "this image has no Python 3.11 to 3.14; choose a newer Ubuntu" >&2
    exit 1
fi

"$python" -m venv "$top/venv"
if [ -s "$source/torch-index.txt" ]; then  # PyTorch's small CPU build
    "$top/venv/bin/python" -m pip install --no-cache-dir \
        --index-url "$(cat "$source/torch-index.txt")" "$(grep '^torch==' "$source/requirements.txt")"
fi
"$top/venv/bin/python" -m pip install --no-cache-dir -r "$source/requirements.txt"

# The grader runs as a user of its own, which can read the lab and write nothing but /tmp.
id lab15 >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin lab15
chmod -R go-w,a+rX "$source" "$top/venv"
chmod 600 "$source/seed.txt"

# As that user: a Python of the image may lie in a folder that is root's alone.
if ! runuser -u lab15 -- "$top/venv/bin/python" -c "import torch, pytest, tqdm, filelock"; then
    echo "the user lab15 cannot run $top/venv/bin/python ($(readlink -f "$top/venv/bin/python")):" \
        "nothing could be graded; choose another image" >&2
    exit 1
fi

if ! runuser -u lab15 -- bwrap --unshare-all --ro-bind / / true; then
    echo "WARNING: there are no user namespaces while this image is built. If there are none in" >&2
    echo "the container that grades either, nothing will be graded: see instructor/README.md." >&2
fi

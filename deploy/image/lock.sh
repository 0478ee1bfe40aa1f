#!/bin/bash
# Renews the lock files beside it: the newest versions that pyproject.toml allows, each with the hashes of all its files.
set -euo pipefail
cd "$(dirname "$0")/../.."

lock() {
	.venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" --output-file "deploy/image/$1" "${@:2}"
}

lock requirements.txt --extra web-auth --extra publish pyproject.toml
# What builds the wheel, and an installation that follows the checkout.
{
	.venv/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")'
	echo "editables"
} | lock build.txt -
# What lists the image's contents.
printf '%s\n' "cyclonedx-bom>=7" "debsbom>=0.10" | lock sbom.txt -

# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# All generated files are in .cache/; `make clean` removes them.

.PHONY: help build docsite demo demo-cluster test test-fast test-matrix lint bench clean

LINTERS = ansible-lint ruff mypy docs docsite changelog shell licences workflow

help:
	@echo 'make demo          provision and partition a simulated eight-GPU node; without root, only partition it'
	@echo 'make demo-cluster  a Kubernetes cluster whose pods get MIG devices of a simulated GPU'
	@echo 'make test          every test and linter'
	@echo 'make test-fast     unit tests, linters, and main cases of modules and playbooks, in a few minutes'
	@echo 'make test-matrix   sanity, playbooks and plugins on all ansible-cores and Pythons, in about an hour'
	@echo 'make lint          only the linters'
	@echo 'make bench         benchmarks of the planner and the modules'
	@echo 'make build         the artifact for Galaxy and ansible-galaxy: .cache/artifact/gpufleet-node-VERSION.tar.gz'
	@echo 'make docsite       the documents and the reference as a website: .cache/docsite/index.html'
	@echo 'make clean         remove all generated files'

demo:
	@demo/run

demo-cluster:
	@demo/run cluster

test:
	@scripts/bootstrap test
	@.cache/venv/bin/python scripts/test.py $(PARTS)

test-fast:
	@scripts/bootstrap test
	@.cache/venv/bin/python scripts/test.py unit playbooks-main integration-main simulator-plain $(LINTERS)

test-matrix:
	@scripts/bootstrap test
	@scripts/fetch-python 3.14 forky >/dev/null || echo 'continuing without Python 3.14'
	@scripts/pythons 3.8 3.9 3.10 3.11 3.12 3.13 3.14
	@scripts/cores --matrix

lint:
	@scripts/bootstrap test
	@.cache/venv/bin/python scripts/test.py $(LINTERS)

bench:
	@benchmarks/run

build:
	@scripts/bootstrap run
	@.cache/venv/bin/python scripts/build.py

docsite:
	@scripts/bootstrap test
	@.cache/venv/bin/python scripts/test.py docsite

clean:
	@if [ -d .cache/lab/podman ] || [ -d .cache/lab/nodes ]; then tests/lab/lab down; fi
	@if [ -d .cache/go ]; then chmod -R u+w .cache/go; fi
	rm -rf .cache .hypothesis .ansible

# SPDX-License-Identifier: GPL-2.0
# The entry points. Building itself is done by kbuild (see Kbuild).

.PHONY: help setup
help:
	@echo 'make setup      install what is needed, prepare rootfs, kernel tree and VM'

setup:
	@scripts/setup

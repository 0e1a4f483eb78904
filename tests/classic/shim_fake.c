// SPDX-License-Identifier: GPL-2.0
/* An object belongs to one module. */
#include "shim.c"

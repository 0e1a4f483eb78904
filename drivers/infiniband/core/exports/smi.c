// SPDX-License-Identifier: GPL-2.0
/* The smi part is internal to ib_core: nothing is exported. */

// SPDX-License-Identifier: GPL-2.0
/* Nothing: only the mad part calls this one. */

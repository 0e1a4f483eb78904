// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>

#include "core_priv.h"

EXPORT_SYMBOL(ib_rdmacg_try_charge);
EXPORT_SYMBOL(ib_rdmacg_uncharge);

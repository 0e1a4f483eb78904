// SPDX-License-Identifier: GPL-2.0

//! The table of state changes of queue pairs, cell by cell (IBTA 10.3.1, 11.2.5.2).

use kernel::{bindings, prelude::*};

#[kunit_tests(rust_verbs_qp_table)]
mod tests {
    use super::*;
    use bindings::*;

    // Names of the bits, in the order of their numbers.
    const STATE: u32 = ib_qp_attr_mask_IB_QP_STATE;
    const CUR: u32 = ib_qp_attr_mask_IB_QP_CUR_STATE;
    const NOTIFY: u32 = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY;
    const ACCESS: u32 = ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
    const PKEY: u32 = ib_qp_attr_mask_IB_QP_PKEY_INDEX;
    const PORT: u32 = ib_qp_attr_mask_IB_QP_PORT;
    const QKEY: u32 = ib_qp_attr_mask_IB_QP_QKEY;
    const AV: u32 = ib_qp_attr_mask_IB_QP_AV;
    const MTU: u32 = ib_qp_attr_mask_IB_QP_PATH_MTU;
    const TIMEOUT: u32 = ib_qp_attr_mask_IB_QP_TIMEOUT;
    const RETRY: u32 = ib_qp_attr_mask_IB_QP_RETRY_CNT;
    const RNR_RETRY: u32 = ib_qp_attr_mask_IB_QP_RNR_RETRY;
    const RQ_PSN: u32 = ib_qp_attr_mask_IB_QP_RQ_PSN;
    const RD_ATOMIC: u32 = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
    const ALT: u32 = ib_qp_attr_mask_IB_QP_ALT_PATH;
    const RNR_TIMER: u32 = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
    const SQ_PSN: u32 = ib_qp_attr_mask_IB_QP_SQ_PSN;
    const DEST_RD_ATOMIC: u32 = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC;
    const MIG: u32 = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE;
    const DEST: u32 = ib_qp_attr_mask_IB_QP_DEST_QPN;

    /// Always allowed, for the driver to judge.
    const RATE: u32 = ib_qp_attr_mask_IB_QP_RATE_LIMIT;

    /// All bits that every provider knows, and the rate limit.
    const BITS: [u32; 22] = [
        1 << 0,
        1 << 1,
        1 << 2,
        1 << 3,
        1 << 4,
        1 << 5,
        1 << 6,
        1 << 7,
        1 << 8,
        1 << 9,
        1 << 10,
        1 << 11,
        1 << 12,
        1 << 13,
        1 << 14,
        1 << 15,
        1 << 16,
        1 << 17,
        1 << 18,
        1 << 19,
        1 << 20,
        1 << 25,
    ];

    const RESET: u32 = ib_qp_state_IB_QPS_RESET;
    const INIT: u32 = ib_qp_state_IB_QPS_INIT;
    const RTR: u32 = ib_qp_state_IB_QPS_RTR;
    const RTS: u32 = ib_qp_state_IB_QPS_RTS;
    const SQD: u32 = ib_qp_state_IB_QPS_SQD;
    const SQE: u32 = ib_qp_state_IB_QPS_SQE;
    const ERR: u32 = ib_qp_state_IB_QPS_ERR;
    const STATES: [u32; 7] = [RESET, INIT, RTR, RTS, SQD, SQE, ERR];

    const RC: u32 = ib_qp_type_IB_QPT_RC;
    const UC: u32 = ib_qp_type_IB_QPT_UC;
    const UD: u32 = ib_qp_type_IB_QPT_UD;
    const GSI: u32 = ib_qp_type_IB_QPT_GSI;
    const SMI: u32 = ib_qp_type_IB_QPT_SMI;
    const KINDS: [u32; 5] = [RC, UC, UD, GSI, SMI];

    /// What a change needs and what it may have; nothing if it is not allowed.
    fn cell(from: u32, to: u32, kind: u32) -> Option<(u32, u32)> {
        if to == RESET || (to == ERR && from != RESET) {
            return Some((0, 0));
        }
        let conn = kind == RC || kind == UC;
        let rc = |bits: u32| if kind == RC { bits } else { 0 };
        Some(match (from, to) {
            (RESET, INIT) => (
                match kind {
                    RC | UC => PKEY | PORT | ACCESS,
                    UD => PKEY | PORT | QKEY,
                    _ => PKEY | QKEY,
                },
                0,
            ),
            (INIT, INIT) => (
                0,
                match kind {
                    RC | UC => PKEY | PORT | ACCESS,
                    UD => PKEY | PORT | QKEY,
                    _ => PKEY | QKEY,
                },
            ),
            (INIT, RTR) if conn => (
                AV | MTU | DEST | RQ_PSN | rc(DEST_RD_ATOMIC | RNR_TIMER),
                ALT | ACCESS | PKEY,
            ),
            (INIT, RTR) => (0, PKEY | QKEY),
            (RTR, RTS) if conn => (
                SQ_PSN | rc(TIMEOUT | RETRY | RNR_RETRY | RD_ATOMIC),
                CUR | ALT | ACCESS | MIG | rc(RNR_TIMER),
            ),
            (RTR, RTS) => (SQ_PSN, CUR | QKEY),
            (RTS, RTS) | (SQD, RTS) if conn => (0, CUR | ALT | ACCESS | MIG | rc(RNR_TIMER)),
            (RTS, RTS) | (SQD, RTS) => (0, CUR | QKEY),
            (RTS, SQD) => (0, NOTIFY),
            (SQD, SQD) if kind == RC => (
                0,
                PORT | AV
                    | TIMEOUT
                    | RETRY
                    | RNR_RETRY
                    | RD_ATOMIC
                    | DEST_RD_ATOMIC
                    | ALT
                    | ACCESS
                    | PKEY
                    | RNR_TIMER
                    | MIG,
            ),
            (SQD, SQD) if kind == UC => (0, AV | ALT | ACCESS | PKEY | MIG),
            (SQD, SQD) => (0, PKEY | QKEY),
            (SQE, RTS) => (
                0,
                match kind {
                    RC => 0,
                    UC => CUR | ACCESS,
                    _ => CUR | QKEY,
                },
            ),
            _ => return None,
        })
    }

    fn ask(from: u32, to: u32, kind: u32, mask: u32) -> bool {
        // SAFETY: The function only looks at a table.
        unsafe { ib_modify_qp_is_ok(from, to, kind, mask) }
    }

    /// Whether the consumer's belief about the state may be given at all.
    fn belief_fits(from: u32, mask: u32) -> bool {
        mask & CUR == 0 || matches!(from, RTR | RTS | SQD | SQE)
    }

    #[test]
    fn every_cell_and_bit() {
        let mut wrong = 0;
        for from in STATES {
            for to in STATES {
                for kind in KINDS {
                    let cell = cell(from, to, kind);
                    let (need, may) = cell.unwrap_or((0, 0));
                    let mut check = |mask: u32, expected: bool| {
                        if ask(from, to, kind, mask) != expected {
                            pr_err!("{} -> {} of {}: mask {:#x}\n", from, to, kind, mask);
                            wrong += 1;
                        }
                    };
                    check(STATE | need, cell.is_some());
                    check(STATE | need | may, cell.is_some() && belief_fits(from, may));
                    for bit in BITS {
                        let known = (STATE | RATE | need | may) & bit != 0;
                        check(
                            STATE | need | bit,
                            cell.is_some() && known && belief_fits(from, bit),
                        );
                        if need & bit != 0 {
                            check(STATE | (need & !bit), false);
                        }
                    }
                }
            }
        }
        assert_eq!(wrong, 0);
    }

    #[test]
    fn no_state_at_all() {
        for kind in KINDS {
            assert!(!ask(RESET, ERR, kind, STATE));
            assert!(!ask(ERR, INIT, kind, STATE | PKEY | PORT | QKEY | ACCESS));
        }
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Data between queue pairs of fake devices: what a ULP may rely on.

use super::util::{ended, flush, Buffer, Counter, Cq, Fake, Mr, Pd, Qp, QpParts, Srq};
use kernel::{bindings, prelude::*, sync::atomic::Relaxed};

#[kunit_tests(rust_verbs_loopback)]
mod tests {
    use super::*;
    // Both globs below have these.
    use bindings::*;
    use kernel::error::code::{EIO, ENOENT, ENOMEM, EOPNOTSUPP};

    const OK: u32 = ib_wc_status_IB_WC_SUCCESS;
    const ALL: u32 = ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | ib_access_flags_IB_ACCESS_REMOTE_READ
        | ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;

    /// One end of a connection. Fields are ended in this order.
    struct End {
        qp: Qp,
        cq: Cq,
        pd: Pd,
        device: Fake,
    }

    impl End {
        fn new(kind: ib_qp_type, access: u32) -> Result<Self> {
            let device = Fake::new()?;
            let pd = Pd::new(&device)?;
            let cq = Cq::new(&device, 32)?;
            let qp = Qp::new(&pd, &cq, kind)?;
            qp.to_init(access)?;
            Ok(Self { qp, cq, pd, device })
        }

        fn connect(&self, to: &Self, rnr_retry: u8) -> Result {
            let lid = to.device.port(1)?.lid;
            self.qp.connect(lid, to.qp.number(), rnr_retry)
        }

        /// Status and opcode of the first completion after a request was carried out.
        fn done(&self, wr: &ib_send_wr) -> Result<Option<(u32, u32)>> {
            self.qp.send(wr)?;
            flush();
            Ok(ended(self.cq.poll()))
        }

        /// The status alone: the opcode of a failure says nothing.
        fn status(&self, wr: &ib_send_wr) -> Result<Option<u32>> {
            Ok(self.done(wr)?.map(|(status, _)| status))
        }
    }

    fn pair(access: u32) -> Result<(End, End)> {
        let a = End::new(ib_qp_type_IB_QPT_RC, access)?;
        let b = End::new(ib_qp_type_IB_QPT_RC, access)?;
        a.connect(&b, 0)?;
        b.connect(&a, 0)?;
        Ok((a, b))
    }

    fn send(opcode: ib_wr_opcode, sge: &mut ib_sge) -> ib_send_wr {
        let mut wr: ib_send_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_id = 7;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr
    }

    fn rdma(opcode: ib_wr_opcode, sge: &mut ib_sge, addr: u64, rkey: u32) -> ib_rdma_wr {
        let mut wr: ib_rdma_wr = pin_init::zeroed();
        wr.wr = send(opcode, sge);
        wr.remote_addr = addr;
        wr.rkey = rkey;
        wr
    }

    #[test]
    fn send_and_receive() -> Result {
        let (a, b) = pair(ALL)?;
        let (from, to) = (Buffer::new(0x5a, 100)?, Buffer::new(0, 100)?);
        b.qp.recv(9, &mut to.sge(&b.pd))?;
        assert_eq!(
            a.done(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?,
            Some((OK, ib_wc_opcode_IB_WC_SEND))
        );
        let wc = b.cq.poll().ok_or(ENOENT)?;
        assert_eq!((wc.status, wc.opcode), (OK, ib_wc_opcode_IB_WC_RECV));
        assert_eq!(wc.byte_len, 100);
        // SAFETY: The request was posted with a number.
        assert_eq!(unsafe { wc.__bindgen_anon_1.wr_id }, 9);
        assert!(to.is_all(0x5a));
        Ok(())
    }

    #[test]
    fn immediate_data() -> Result {
        let (a, b) = pair(ALL)?;
        let (from, to) = (Buffer::new(1, 4)?, Buffer::new(0, 4)?);
        b.qp.recv(1, &mut to.sge(&b.pd))?;
        let mut sge = from.sge(&a.pd);
        let mut wr = send(ib_wr_opcode_IB_WR_SEND_WITH_IMM, &mut sge);
        wr.ex.imm_data = 0x1234_5678;
        a.qp.send(&wr)?;
        flush();
        let wc = b.cq.poll().ok_or(ENOENT)?;
        assert!(wc.wc_flags as u32 & ib_wc_flags_IB_WC_WITH_IMM != 0);
        // SAFETY: The flag says so.
        assert_eq!(unsafe { wc.ex.imm_data }, 0x1234_5678);
        Ok(())
    }

    #[test]
    fn receiver_too_small() -> Result {
        let (a, b) = pair(ALL)?;
        let (from, to) = (Buffer::new(1, 16)?, Buffer::new(0, 8)?);
        b.qp.recv(1, &mut to.sge(&b.pd))?;
        assert_eq!(
            a.status(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?,
            Some(ib_wc_status_IB_WC_REM_INV_REQ_ERR)
        );
        let got = b.cq.poll().map(|wc| wc.status);
        assert_eq!(got, Some(ib_wc_status_IB_WC_LOC_LEN_ERR));
        assert!(to.is_all(0));
        assert_eq!(a.qp.state()?, ib_qp_state_IB_QPS_ERR);
        assert_eq!(b.qp.state()?, ib_qp_state_IB_QPS_ERR);
        Ok(())
    }

    #[test]
    fn no_receive_request() -> Result {
        let (a, _b) = pair(ALL)?;
        let from = Buffer::new(1, 8)?;
        assert_eq!(
            a.status(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?,
            Some(ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR)
        );
        Ok(())
    }

    #[test]
    fn patient_sender() -> Result {
        let a = End::new(ib_qp_type_IB_QPT_RC, ALL)?;
        let b = End::new(ib_qp_type_IB_QPT_RC, ALL)?;
        a.connect(&b, 7)?;
        b.connect(&a, 7)?;
        let (from, to) = (Buffer::new(3, 8)?, Buffer::new(0, 8)?);
        a.qp.send(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?;
        flush();
        assert!(a.cq.poll().is_none());
        b.qp.recv(1, &mut to.sge(&b.pd))?;
        // One turn for the news, one for the request.
        flush();
        flush();
        assert_eq!(ended(a.cq.poll()), Some((OK, ib_wc_opcode_IB_WC_SEND)));
        assert!(to.is_all(3));
        Ok(())
    }

    #[test]
    fn local_key_is_not_for_peers() -> Result {
        let (a, b) = pair(ALL)?;
        let (local, remote) = (Buffer::new(0xaa, 64)?, Buffer::new(0, 64)?);
        let rkey = b.pd.local_key();
        let mut sge = local.sge(&a.pd);
        let wr = rdma(ib_wr_opcode_IB_WR_RDMA_WRITE, &mut sge, remote.addr(), rkey);
        assert_eq!(a.status(&wr.wr)?, Some(ib_wc_status_IB_WC_REM_ACCESS_ERR));
        assert!(remote.is_all(0));
        Ok(())
    }

    /// Registers a buffer for the peer; returns the region and its key.
    fn register(end: &End, buffer: &Buffer, len: u32, access: u32) -> Result<(Mr, u32)> {
        let mr = Mr::new(&end.pd, 2)?;
        let mut sg: scatterlist = pin_init::zeroed();
        // SAFETY: One entry over memory of the buffer; the device has no DMA device, so the
        // address of the entry is that of the kernel.
        let mapped = unsafe {
            sg_init_one(&mut sg, buffer.addr() as usize as *const c_void, len);
            sg.dma_address = buffer.addr();
            #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
            {
                sg.dma_length = len;
            }
            ib_map_mr_sg(mr.raw(), &mut sg, 1, core::ptr::null_mut(), 4096)
        };
        if mapped != 1 {
            return Err(EIO);
        }
        // SAFETY: The region is live.
        let key = unsafe { (*mr.raw()).rkey } + 1;
        let mut wr: ib_reg_wr = pin_init::zeroed();
        wr.wr.opcode = ib_wr_opcode_IB_WR_REG_MR;
        wr.mr = mr.raw();
        wr.key = key;
        wr.access = access as c_int;
        match end.done(&wr.wr)? {
            Some((OK, opcode)) if opcode == ib_wc_opcode_IB_WC_REG_MR => Ok((mr, key)),
            _ => Err(EIO),
        }
    }

    #[test]
    fn registered_memory() -> Result {
        let (a, b) = pair(ALL)?;
        let (local, remote) = (Buffer::new(0xbb, 32)?, Buffer::new(0, 32)?);
        let (mr, key) = register(&b, &remote, 32, ALL)?;
        let base = mr.iova();
        let mut sge = local.sge(&a.pd);
        let wr = rdma(ib_wr_opcode_IB_WR_RDMA_WRITE, &mut sge, base, key);
        assert_eq!(a.done(&wr.wr)?, Some((OK, ib_wc_opcode_IB_WC_RDMA_WRITE)));
        assert!(remote.is_all(0xbb));

        let back = Buffer::new(0, 32)?;
        let mut sge = back.sge(&a.pd);
        let wr = rdma(ib_wr_opcode_IB_WR_RDMA_READ, &mut sge, base, key);
        assert_eq!(a.done(&wr.wr)?, Some((OK, ib_wc_opcode_IB_WC_RDMA_READ)));
        assert!(back.is_all(0xbb));

        // One byte beyond the end.
        let mut sge = local.sge(&a.pd);
        let wr = rdma(ib_wr_opcode_IB_WR_RDMA_WRITE, &mut sge, base + 1, key);
        assert_eq!(a.status(&wr.wr)?, Some(ib_wc_status_IB_WC_REM_ACCESS_ERR));
        Ok(())
    }

    #[test]
    fn rights_of_the_region() -> Result {
        let (a, b) = pair(ALL)?;
        let (local, remote) = (Buffer::new(1, 8)?, Buffer::new(0, 8)?);
        let (mr, key) = register(&b, &remote, 8, ib_access_flags_IB_ACCESS_REMOTE_READ)?;
        let base = mr.iova();
        let mut sge = local.sge(&a.pd);
        let wr = rdma(ib_wr_opcode_IB_WR_RDMA_WRITE, &mut sge, base, key);
        assert_eq!(a.status(&wr.wr)?, Some(ib_wc_status_IB_WC_REM_ACCESS_ERR));
        assert!(remote.is_all(0));
        Ok(())
    }

    #[test]
    fn invalidated_region() -> Result {
        let (a, b) = pair(ALL)?;
        let (local, remote) = (Buffer::new(1, 8)?, Buffer::new(0, 8)?);
        let (mr, key) = register(&b, &remote, 8, ALL)?;
        let mut wr: ib_send_wr = pin_init::zeroed();
        wr.opcode = ib_wr_opcode_IB_WR_LOCAL_INV;
        wr.ex.invalidate_rkey = key;
        assert_eq!(b.done(&wr)?, Some((OK, ib_wc_opcode_IB_WC_LOCAL_INV)));
        let base = mr.iova();
        let mut sge = local.sge(&a.pd);
        let wr = rdma(ib_wr_opcode_IB_WR_RDMA_WRITE, &mut sge, base, key);
        assert_eq!(a.status(&wr.wr)?, Some(ib_wc_status_IB_WC_REM_ACCESS_ERR));
        Ok(())
    }

    #[test]
    fn atomics() -> Result {
        let (a, b) = pair(ALL)?;
        let (old, word) = (Buffer::new(0, 8)?, Buffer::new(0, 8)?);
        let (mr, key) = register(&b, &word, 8, ALL)?;
        let base = mr.iova();
        let mut sge = old.sge(&a.pd);
        let mut wr: ib_atomic_wr = pin_init::zeroed();
        wr.wr = send(ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD, &mut sge);
        wr.remote_addr = base;
        wr.rkey = key;
        wr.compare_add = 5;
        a.qp.send(&wr.wr)?;
        a.qp.send(&wr.wr)?;
        flush();
        assert_eq!((old.number(), word.number()), (5, 10));
        wr.wr.opcode = ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP;
        wr.compare_add = 9;
        wr.swap = 1;
        a.qp.send(&wr.wr)?;
        flush();
        assert_eq!((old.number(), word.number()), (10, 10));
        wr.compare_add = 10;
        a.qp.send(&wr.wr)?;
        flush();
        assert_eq!((old.number(), word.number()), (10, 1));
        Ok(())
    }

    #[test]
    fn foreign_domain() -> Result {
        let (a, _b) = pair(ALL)?;
        let other = Pd::new(&a.device)?;
        let from = Buffer::new(1, 8)?;
        // The key of another domain.
        assert_eq!(
            a.status(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&other)))?,
            Some(ib_wc_status_IB_WC_LOC_PROT_ERR)
        );
        Ok(())
    }

    #[test]
    fn error_state_flushes() -> Result {
        let (a, b) = pair(ALL)?;
        let (from, to) = (Buffer::new(1, 8)?, Buffer::new(0, 8)?);
        a.device.hold(true)?;
        b.qp.recv(1, &mut to.sge(&b.pd))?;
        a.qp.recv(2, &mut to.sge(&a.pd))?;
        for _ in 0..3 {
            a.qp.send(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?;
        }
        flush();
        assert!(a.cq.poll().is_none());
        a.qp.to_error()?;
        flush();
        for _ in 0..4 {
            let got = a.cq.poll().map(|wc| wc.status);
            assert_eq!(got, Some(ib_wc_status_IB_WC_WR_FLUSH_ERR));
        }
        assert!(a.cq.poll().is_none());
        assert!(to.is_all(0));
        Ok(())
    }

    #[test]
    fn down_port_loses() -> Result {
        let (a, b) = pair(ALL)?;
        let mut attr = b.device.port(1)?;
        attr.state = ib_port_state_IB_PORT_DOWN;
        b.device.set_port(1, &attr)?;
        let (from, to) = (Buffer::new(1, 8)?, Buffer::new(0, 8)?);
        b.qp.recv(1, &mut to.sge(&b.pd))?;
        assert_eq!(
            a.status(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?,
            Some(ib_wc_status_IB_WC_RETRY_EXC_ERR)
        );
        Ok(())
    }

    #[test]
    fn full_send_queue() -> Result {
        let (a, _b) = pair(ALL)?;
        let from = Buffer::new(1, 8)?;
        a.device.hold(true)?;
        let mut sge = from.sge(&a.pd);
        for _ in 0..8 {
            a.qp.send(&send(ib_wr_opcode_IB_WR_SEND, &mut sge))?;
        }
        let result = a.qp.send(&send(ib_wr_opcode_IB_WR_SEND, &mut sge));
        assert_eq!(result, Err(ENOMEM));
        Ok(())
    }

    #[test]
    fn shared_receives() -> Result {
        static EVENTS: Counter = Counter::new(0);
        let device = Fake::new()?;
        let pd = Pd::new(&device)?;
        let cq = Cq::new(&device, 32)?;
        let srq = Srq::new(&pd)?;
        let parts = QpParts {
            srq: Some(&srq),
            events: Some(&EVENTS),
            ..QpParts::new(ib_qp_type_IB_QPT_RC)
        };
        let qp = Qp::with(&pd, &cq, &parts)?;
        qp.to_init(ALL)?;
        let a = End::new(ib_qp_type_IB_QPT_RC, ALL)?;
        qp.connect(a.device.port(1)?.lid, a.qp.number(), 0)?;
        a.qp.connect(device.port(1)?.lid, qp.number(), 0)?;

        let (from, to) = (Buffer::new(6, 8)?, Buffer::new(0, 8)?);
        let mut sge = to.sge(&pd);
        let mut wr: ib_recv_wr = pin_init::zeroed();
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        // SAFETY: The queue is live, and the request valid.
        let ret = unsafe {
            let post = (*(*srq.raw()).device).ops.post_srq_recv.ok_or(EOPNOTSUPP)?;
            post(srq.raw(), &wr, &mut core::ptr::null())
        };
        assert_eq!(ret, 0);
        a.qp.send(&send(ib_wr_opcode_IB_WR_SEND, &mut from.sge(&a.pd)))?;
        flush();
        assert_eq!(ended(cq.poll()), Some((OK, ib_wc_opcode_IB_WC_RECV)));
        assert!(to.is_all(6));

        // A queue pair of a shared queue says when it takes no more from it.
        qp.to_error()?;
        flush();
        assert!(super::super::util::wait_until(|| {
            EVENTS.load(Relaxed) == ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED + 1
        }));
        Ok(())
    }
}

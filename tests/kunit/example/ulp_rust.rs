// SPDX-License-Identifier: GPL-2.0

//! Example of a ULP's test on a fake device.

extern crate kernel_facade as kernel;

#[path = "../verbs/util.rs"]
#[allow(dead_code)]
mod util;

kernel::prelude::module! {
    type: Example,
    name: "example_ulp_rust",
    description: "Example of a ULP's test on a fake device",
    license: "GPL",
    imports_ns: ["DMA_BUF"],
}

struct Example;

impl kernel::Module for Example {
    fn init(_module: &'static kernel::ThisModule) -> kernel::error::Result<Self> {
        Ok(Self)
    }
}

/// What is tested: takes a domain and a queue, or leaves nothing behind.
#[cfg(CONFIG_KUNIT = "y")]
fn ulp_start(device: &util::Fake) -> kernel::error::Result<(util::Cq, util::Pd)> {
    let pd = util::Pd::new(device)?;
    Ok((util::Cq::new(device, 16)?, pd))
}

#[kernel::prelude::kunit_tests(example_ulp_rust)]
mod tests {
    use super::{ulp_start, util::Fake};
    use kernel::{bindings::*, error::Result, prelude::ENOSPC};

    #[test]
    fn start_without_a_queue() -> Result {
        let device = Fake::new()?;
        device.clear();
        let domains = device.objects(ib_fake_op_IB_FAKE_ALLOC_PD);
        device.fail(ib_fake_op_IB_FAKE_CREATE_CQ, 1, ENOSPC);
        assert_eq!(ulp_start(&device).err(), Some(ENOSPC));
        assert_eq!(device.calls(ib_fake_op_IB_FAKE_CREATE_CQ), 1);
        assert_eq!(device.objects(ib_fake_op_IB_FAKE_ALLOC_PD), domains);
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The bytes are a packet, from the base transport header on.

#![no_main]
#![allow(dead_code)]

#[path = "../../drivers/infiniband/sw/rxe"]
mod rxe {
    pub(crate) mod proto;
    pub(crate) mod wire;
}
pub(crate) use rxe::{proto, wire};

#[path = "../host/rxe/fuzz.rs"]
mod fuzz;
#[path = "../host/rxe/random.rs"]
mod random;
#[path = "../host/rxe/sim.rs"]
mod sim;
#[path = "../host/rxe/traffic.rs"]
mod traffic;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz::check_parse(data);
});

// SPDX-License-Identifier: GPL-2.0

//! The bytes are the choices of an attacker against one queue pair.

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
    fuzz::besieged(random::Random::from_bytes(data), 200);
});

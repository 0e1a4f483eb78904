// SPDX-License-Identifier: GPL-2.0

//! Texts for asynchronous events and completion statuses, as they appear in logs.

use kernel::prelude::*;

/// Texts by event code. Code 19 (work queue fatal) has none.
const EVENTS: [Option<&CStr>; 21] = [
    Some(c"CQ error"),
    Some(c"QP fatal error"),
    Some(c"QP request error"),
    Some(c"QP access error"),
    Some(c"communication established"),
    Some(c"send queue drained"),
    Some(c"path migration successful"),
    Some(c"path migration error"),
    Some(c"device fatal error"),
    Some(c"port active"),
    Some(c"port error"),
    Some(c"LID change"),
    Some(c"P_key change"),
    Some(c"SM change"),
    Some(c"SRQ error"),
    Some(c"SRQ limit reached"),
    Some(c"last WQE reached"),
    Some(c"client reregister"),
    Some(c"GID changed"),
    None,
    Some(c"device speed change"),
];

/// Texts by completion status.
const STATUSES: [&CStr; 22] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"WR flushed",
    c"memory bind operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"operation aborted",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
];

/// The text of an event.
pub(crate) fn event(code: u32) -> &'static CStr {
    EVENTS
        .get(code as usize)
        .copied()
        .flatten()
        .unwrap_or(c"unrecognized event")
}

/// The text of a completion status.
pub(crate) fn wc_status(code: u32) -> &'static CStr {
    STATUSES
        .get(code as usize)
        .copied()
        .unwrap_or(c"unrecognized status")
}

// SPDX-License-Identifier: BSD-2-Clause
//! The operations of sigma0, the initial task, which the root task performs too, in its name.

keel_abi::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// sigma0 operation (label): map the fpage w0, whose base is a physical address
    SIGMA0_MAP = 1;
    /// sigma0 operation (label): map a copy of the KIP
    SIGMA0_KIP = 2;
    /// sigma0 operation (label): map any free RAM of the size of the fpage w0
    SIGMA0_ANY = 3;
    /// sigma0 operation (label): make the requester's task the owner of GSI w0, or of MSI w0 -
    /// GSI_COUNT
    SIGMA0_IRQ = 4;
}

// Ports of DNS.

/** Where each protocol is spoken when no port is given (RFC 1035, 7858, 8484). */
export const DNS_PORTS = { UDP: 53, TCP: 53, DOT: 853, DOH: 443 } as const

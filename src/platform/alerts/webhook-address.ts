// Which addresses webhooks may be posted to: networks of one's own yes, link-local addresses and the
// metadata services of clouds never, whatever name or redirect leads there.
import { lookup } from 'node:dns'
import { BlockList, isIP, isIPv6, type LookupFunction } from 'node:net'
import { ipv6Groups } from '../../contract/dns/name.ts'

const blocked = new BlockList()
blocked.addSubnet('169.254.0.0', 16, 'ipv4')
blocked.addSubnet('fe80::', 10, 'ipv6')
for (const address of ['100.100.100.200', '168.63.129.16', '192.0.0.192']) {
  blocked.addAddress(address, 'ipv4')
}
for (const address of ['fd00:ec2::254', 'fd20:ce::254']) blocked.addAddress(address, 'ipv6')

/** The address is one that nothing is posted to. */
export class BlockedAddressError extends Error {
  readonly code = 'ADDRESS_BLOCKED'

  constructor(address: string) {
    super(`${address} is link-local or a metadata service`)
    this.name = 'BlockedAddressError'
  }
}

/** Whether nothing may be posted to this literal address. */
export function isBlockedAddress(address: string): boolean {
  if (!isIPv6(address)) return isIP(address) === 0 || blocked.check(address, 'ipv4')
  if (blocked.check(address, 'ipv6')) return true
  return embeddedIPv4(address).some((inner) => blocked.check(inner, 'ipv4'))
}

/** IPv4 addresses within an IPv6 one: mapped, compatible, translated, NAT64 (RFC 6052) and 6to4 (RFC 3056). */
function embeddedIPv4(address: string): string[] {
  const groups = ipv6Groups(address)
  const dotted = (high = 0, low = 0) => `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
  const tail = dotted(groups[6], groups[7])
  const head = groups.slice(0, 6).map((group) => group.toString(16))
  const prefix = head.join(':')
  const carries = ['0:0:0:0:0:0', '0:0:0:0:0:ffff', '0:0:0:0:ffff:0', '64:ff9b:0:0:0:0']
  if (carries.includes(prefix) || prefix.startsWith('64:ff9b:1:')) return [tail]
  return groups[0] === 0x2002 ? [dotted(groups[1], groups[2])] : []
}

/** Looks names up as Node does, and fails with BlockedAddressError when one of the addresses is blocked. */
export const lookupAllowed: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) {
      callback(error, [])
      return
    }
    const bad = addresses.find(({ address }) => isBlockedAddress(address))
    const [first] = addresses
    if (bad !== undefined) callback(new BlockedAddressError(bad.address), [])
    else if (options.all === true) callback(null, addresses)
    else callback(null, first?.address ?? '', first?.family)
  })
}

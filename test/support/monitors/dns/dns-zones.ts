// The zones of the tests of DNS monitors, on an unbound.
import { afterAll } from 'vitest'
import { missing } from '../../needs.ts'
import type { KeyPair } from '../../network/certificates.ts'
import { startUnbound, type Unbound } from './unbound.ts'

const ZONE = `
$ORIGIN zone.example.
$TTL 300
@        IN SOA ns1 admin.zone.example. 2026112101 7200 3600 1209600 60
@        IN NS ns1
@        IN NS ns2
@        IN MX 10 mail
@        IN MX 5 mail2
@        IN TXT "v=spf1 -all"
@        IN CAA 0 issue "ca.example"
@        IN HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.7
ns1      IN A 192.0.2.1
ns2      IN A 192.0.2.2
mail     IN A 192.0.2.3
mail2    IN A 192.0.2.4
www  60  IN A 192.0.2.10
www  60  IN A 192.0.2.9
www 300  IN AAAA 2001:db8::1
alias    IN CNAME www
_sip._tcp IN SRV 1 2 5060 mail
two      IN TXT "one " "two"
\\046dot  IN A 192.0.2.20
below    IN NS ns.below
ns.below IN A 192.0.2.40
ns.below IN AAAA 2001:db8::40
odd      IN TYPE65300 \\# 3 abcdef
${Array.from({ length: 40 }, (_, at) => `big IN TXT "record ${at} ${'x'.repeat(60)}"`).join('\n')}
`
const REVERSE = `
$ORIGIN 2.0.192.in-addr.arpa.
@ 300 IN SOA ns1.zone.example. admin.zone.example. 1 60 60 60 60
@ 300 IN NS ns1.zone.example.
10 300 IN PTR www.zone.example.
`
const REVERSE6 = `
$ORIGIN 8.b.d.0.1.0.0.2.ip6.arpa.
@ 300 IN SOA ns1.zone.example. admin.zone.example. 1 60 60 60 60
@ 300 IN NS ns1.zone.example.
1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0 300 IN PTR www.zone.example.
`

/** Starts the server for a test file; where it is missing, `why` says so. */
export async function startZones(
  pair: KeyPair,
): Promise<{ why: string | undefined; unbound: Unbound }> {
  const why = missing('unbound', 'openssl')
  if (why !== undefined) return { why, unbound: {} as Unbound }
  const zones = [
    { name: 'zone.example', text: ZONE },
    { name: '2.0.192.in-addr.arpa', text: REVERSE },
    { name: '8.b.d.0.1.0.0.2.ip6.arpa', text: REVERSE6 },
  ]
  const unbound = await startUnbound(zones, pair)
  afterAll(() => unbound[Symbol.asyncDispose]())
  return { why, unbound }
}

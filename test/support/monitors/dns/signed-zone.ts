// A DNSSEC zone signed at run time, with one key (ECDSA P-256, RFC 6605), for resolvers that validate.
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { encodeDnsName } from '../../../../src/contract/dns/name.ts'
import type { Zone } from './name-servers.ts'

const ALGORITHM = 13
const TTL = 300
const TYPES = { SOA: 6, NS: 2, A: 1, DNSKEY: 48 } as const
const DAY_SECONDS = 86_400

/** Addresses by the first label of their names; `forged` gets a signature over another address. */
export function signedZone(zone: string, addresses: Record<string, string>): Zone {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const point = Buffer.concat([Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')])
  const key = Buffer.concat([Buffer.from([1, 1, 3, ALGORITHM]), point])
  const signer: Signer = { zone, privateKey, keyTag: keyTagOf(key) }
  const soa = Buffer.concat([name(`ns.${zone}`), name(`admin.${zone}`), words32(1, 60, 60, 60, 60)])
  const keyText = `257 3 ${ALGORITHM} ${point.toString('base64')}`
  const lines = [
    `${zone}. ${TTL} IN SOA ns.${zone}. admin.${zone}. 1 60 60 60 60`,
    signature(signer, zone, 'SOA', soa),
    `${zone}. ${TTL} IN NS ns.${zone}.`,
    signature(signer, zone, 'NS', name(`ns.${zone}`)),
    `${zone}. ${TTL} IN DNSKEY ${keyText}`,
    signature(signer, zone, 'DNSKEY', key),
  ]
  for (const [label, address] of Object.entries({ ns: '192.0.2.1', ...addresses })) {
    const owner = `${label}.${zone}`
    const signed = label === 'forged' ? '192.0.2.66' : address
    lines.push(`${owner}. ${TTL} IN A ${address}`)
    lines.push(signature(signer, owner, 'A', Buffer.from(signed.split('.').map(Number))))
  }
  return { name: zone, text: `${lines.join('\n')}\n`, trustAnchor: `${zone}. DNSKEY ${keyText}` }
}

interface Signer {
  zone: string
  privateKey: KeyObject
  keyTag: number
}

/** The RRSIG of a set of one record, as a line (RFC 4034, 3.1.8.1). */
function signature(signer: Signer, owner: string, type: keyof typeof TYPES, data: Buffer): string {
  const { zone, privateKey, keyTag } = signer
  const now = Math.floor(Date.now() / 1000)
  const [from, to] = [now - DAY_SECONDS, now + DAY_SECONDS]
  const labels = owner.split('.').length
  const head = Buffer.concat([
    words16(TYPES[type]),
    Buffer.from([ALGORITHM, labels]),
    words32(TTL, to, from),
    words16(keyTag),
    name(zone),
  ])
  const record = [name(owner), words16(TYPES[type], 1), words32(TTL), words16(data.length), data]
  const signed = sign('sha256', Buffer.concat([head, ...record]), {
    key: privateKey,
    dsaEncoding: 'ieee-p1363',
  })
  const times = [to, from].map(zoneTime).join(' ')
  const text = signed.toString('base64')
  return `${owner}. ${TTL} IN RRSIG ${type} ${ALGORITHM} ${labels} ${TTL} ${times} ${keyTag} ${zone}. ${text}`
}

/** RFC 4034, appendix B. */
function keyTagOf(key: Buffer): number {
  let sum = 0
  for (const [at, byte] of key.entries()) sum += at % 2 === 0 ? byte << 8 : byte
  return (sum + (sum >>> 16)) & 0xffff
}

function zoneTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)
}

function name(text: string): Buffer {
  return encodeDnsName(text) as Buffer
}

function words16(...values: number[]): Buffer {
  return Buffer.concat(values.map((value) => Buffer.from([value >> 8, value & 255])))
}

function words32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, 4 * at)
  return bytes
}

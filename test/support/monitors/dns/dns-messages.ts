// DNS messages with one question, byte by byte, for tests of their decoders.
import { encodeDnsName } from '../../../../src/contract/dns/name.ts'
import { encodeQuery, readAnswer, type DnsRecord } from '../../../../src/network/dns/message.ts'

/** The queried name. */
export const NAME = 'a.test'

/** A query for a type of NAME, with its id. */
export function queryFor(type: number, name = NAME): Buffer {
  const query = encodeQuery({
    name: encodeDnsName(name) as Buffer,
    type,
    class: 1,
    recursionDesired: true,
    checkingDisabled: false,
    dnssecOk: false,
    ednsBytes: 1232,
    nsid: false,
  })
  query.writeUInt16BE(0x1234, 0)
  return query
}

/** A response to it whose records follow as bytes; `counts` of the three sections. */
export function response(type: number, records: Buffer, counts: [number, number, number]): Buffer {
  const query = queryFor(type)
  const head = Buffer.from(query.subarray(0, query.length - 11))
  head.writeUInt16BE(0x8180, 2)
  for (const [at, count] of counts.entries()) head.writeUInt16BE(count, 6 + 2 * at)
  return Buffer.concat([head, records])
}

/** One record of NAME. */
export function record(type: number, data: Buffer, ttl = 60): Buffer {
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(ttl, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

/** The decoder's result for one record with this data; a string is the reason of a refusal. */
export function decoded(type: number, data: Buffer, ttl?: number): DnsRecord | string {
  const reading = readAnswer(response(type, record(type, data, ttl), [1, 0, 0]), queryFor(type))
  if (reading.kind === 'answer') return reading.message.Answer[0] as DnsRecord
  return 'reason' in reading ? reading.reason : reading.kind
}

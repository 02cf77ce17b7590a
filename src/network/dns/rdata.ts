// The data of DNS records: as text, the way zone files and dig write it, and by its fields where it has several.
import { DNS_TYPE_NUMBERS, dnsTypeName } from '../../contract/dns/parameters.ts'
import type { DnsReader } from './reader.ts'
import { readService } from './service.ts'
import { ipv6Text } from '../ip-address.ts'
import { base32Hex, quoted, readableText } from './text.ts'

export interface RecordData {
  data: string
  fields?: Record<string, unknown>
}

type Parse = (reader: DnsReader) => RecordData

/**
 * Reads the data of a record of this type from the reader's position to its end. Throws MalformedMessage.
 * Unknown types are formatted as in RFC 3597: `\# <bytes> <hex>`; so are addresses of
 * another class than the Internet's, which look different there.
 */
export function readRecordData(type: number, isInternet: boolean, reader: DnsReader): RecordData {
  const parse = isInternet || type !== DNS_TYPE_NUMBERS['A'] ? PARSERS.get(type) : undefined
  return (parse ?? unknown)(reader)
}

const unknown: Parse = (reader) => {
  const rest = reader.rest()
  const hex = rest.length === 0 ? '' : ` ${rest.toString('hex')}`
  return { data: `\\# ${rest.length}${hex}` }
}

const name: Parse = (reader) => ({ data: reader.name() })

function of(fields: Record<string, unknown>): RecordData {
  return { data: Object.values(fields).join(' '), fields }
}

const BY_NAME: Readonly<Record<string, Parse>> = {
  A: (reader) => {
    const [a, b, c, d] = reader.readBytes(4)
    return { data: `${a}.${b}.${c}.${d}` }
  },
  AAAA: (reader) => ({ data: ipv6Text(reader.readBytes(16)) }),
  SOA: (reader) =>
    of({
      mname: reader.name(),
      rname: reader.name(),
      serial: reader.u32(),
      refresh: reader.u32(),
      retry: reader.u32(),
      expire: reader.u32(),
      minimum: reader.u32(),
    }),
  TXT: (reader) => {
    const strings: Buffer[] = []
    do strings.push(reader.characterString())
    while (reader.at < reader.end)
    // Not one by one: a character or a secret may go on in the next string.
    return { data: readableText(Buffer.concat(strings)) }
  },
  CAA: (reader) => {
    const flags = reader.u8()
    const tag = readableText(reader.characterString())
    const value = readableText(reader.rest())
    return { data: `${flags} ${tag} ${quoted(value)}`, fields: { flags, tag, value } }
  },
  NAPTR: (reader) => {
    const order = reader.u16()
    const preference = reader.u16()
    const [flags, service, regexp] = [0, 1, 2].map(() => readableText(reader.characterString()))
    const replacement = reader.name()
    const texts = [flags, service, regexp].map((text) => quoted(text ?? '')).join(' ')
    return {
      data: `${order} ${preference} ${texts} ${replacement}`,
      fields: { order, preference, flags, service, regexp, replacement },
    }
  },
  DS: (reader) =>
    of({
      keyTag: reader.u16(),
      algorithm: reader.u8(),
      digestType: reader.u8(),
      digest: hexOf(reader),
    }),
  DNSKEY: (reader) =>
    of({
      flags: reader.u16(),
      protocol: reader.u8(),
      algorithm: reader.u8(),
      publicKey: reader.rest().toString('base64'),
    }),
  RRSIG: (reader) =>
    of({
      typeCovered: dnsTypeName(reader.u16()),
      algorithm: reader.u8(),
      labels: reader.u8(),
      originalTtl: reader.u32(),
      expiration: signatureTime(reader.u32()),
      inception: signatureTime(reader.u32()),
      keyTag: reader.u16(),
      signer: reader.name(),
      signature: reader.rest().toString('base64'),
    }),
  NSEC: (reader) => {
    const next = reader.name()
    const types = typeBitmap(reader)
    return { data: [next, ...types].join(' '), fields: { next, types } }
  },
  NSEC3: (reader) => {
    const [algorithm, flags, iterations] = [reader.u8(), reader.u8(), reader.u16()]
    const salt = saltOf(reader)
    const next = base32Hex(reader.characterString())
    const types = typeBitmap(reader)
    return {
      data: [algorithm, flags, iterations, salt, next, ...types].join(' '),
      fields: { algorithm, flags, iterations, salt, next, types },
    }
  },
  NSEC3PARAM: (reader) =>
    of({
      algorithm: reader.u8(),
      flags: reader.u8(),
      iterations: reader.u16(),
      salt: saltOf(reader),
    }),
  TLSA: (reader) =>
    of({
      usage: reader.u8(),
      selector: reader.u8(),
      matchingType: reader.u8(),
      certificate: hexOf(reader),
    }),
  NS: name,
  CNAME: name,
  PTR: name,
  DNAME: name,
  MX: (reader) => of({ preference: reader.u16(), exchange: reader.name() }),
  SRV: (reader) =>
    of({
      priority: reader.u16(),
      weight: reader.u16(),
      port: reader.u16(),
      target: reader.name(),
    }),
  SVCB: readService,
  HTTPS: readService,
}

const PARSERS: ReadonlyMap<number, Parse> = new Map(
  Object.entries(BY_NAME).map(([type, parse]) => [DNS_TYPE_NUMBERS[type] as number, parse]),
)

function hexOf(reader: DnsReader): string {
  return reader.rest().toString('hex').toUpperCase()
}

function saltOf(reader: DnsReader): string {
  return reader.characterString().toString('hex').toUpperCase() || '-'
}

/** YYYYMMDDHHMMSS (RFC 4034, 3.2). */
function signatureTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)
}

/** The types of a bitmap in windows (RFC 4034, 4.1.2). */
function typeBitmap(reader: DnsReader): string[] {
  const types: string[] = []
  while (reader.at < reader.end) {
    const window = reader.u8()
    for (const [index, byte] of reader.characterString().entries()) {
      for (let bit = 0; bit < 8; bit++) {
        if ((byte & (0x80 >> bit)) !== 0) types.push(dnsTypeName(window * 256 + index * 8 + bit))
      }
    }
  }
  return types
}

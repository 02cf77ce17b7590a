// The data of SVCB and HTTPS records (RFC 9460).
import { MalformedMessage, type DnsReader } from './reader.ts'
import { ipv6Text } from '../ip-address.ts'
import { quoted, readableText } from './text.ts'

/** Reads one record up to the reader's end, as `RecordData` of rdata.ts. Throws MalformedMessage. */
export function readService(reader: DnsReader): { data: string; fields: Record<string, unknown> } {
  const priority = reader.u16()
  const target = reader.name()
  const params: Record<string, unknown> = {}
  const parts = [String(priority), target]
  let last = -1
  while (reader.at < reader.end) {
    const key = reader.u16()
    // RFC 9460, 2.2: in strictly increasing order, or the record is malformed.
    if (key <= last) throw new MalformedMessage('the parameters of a service are out of order')
    last = key
    const value = reader.readBytes(reader.u16())
    const { name, shown, text } = parameterOf(key, value)
    params[name] = shown
    parts.push(text === '' ? name : `${name}=${text}`)
  }
  return { data: parts.join(' '), fields: { priority, target, params } }
}

interface Parameter {
  name: string
  /** For the fields. */
  shown: unknown
  /** For the text; empty for a parameter without a value. */
  text: string
}

/** By their numbers. */
const NAMES = 'mandatory alpn no-default-alpn port ipv4hint ech ipv6hint dohpath ohttp'.split(' ')

function parameterOf(key: number, value: Buffer): Parameter {
  const name = keyName(key)
  const list = (items: string[]) => ({ name, shown: items, text: items.join(',') })
  switch (name) {
    case 'mandatory':
      return list(chunks(value, 2, name).map((one) => keyName(one.readUInt16BE())))
    case 'alpn':
      return list(strings(value))
    case 'no-default-alpn':
    case 'ohttp':
      if (value.length > 0) throw malformed(name)
      return { name, shown: true, text: '' }
    case 'port':
      if (value.length !== 2) throw malformed(name)
      return { name, shown: value.readUInt16BE(), text: String(value.readUInt16BE()) }
    case 'ipv4hint':
      return list(chunks(value, 4, name).map((one) => one.join('.')))
    case 'ipv6hint':
      return list(chunks(value, 16, name).map((one) => ipv6Text(one)))
    case 'ech':
      return { name, shown: value.toString('base64'), text: value.toString('base64') }
    default: {
      const shown = readableText(value)
      return { name, shown, text: shown === '' ? '' : quoted(shown) }
    }
  }
}

function keyName(key: number): string {
  return NAMES[key] ?? `key${key}`
}

function malformed(name: string): MalformedMessage {
  return new MalformedMessage(`the parameter ${name} of a service is malformed`)
}

function chunks(value: Buffer, size: number, name: string): Buffer[] {
  if (value.length === 0 || value.length % size !== 0) throw malformed(name)
  return Array.from({ length: value.length / size }, (_, at) =>
    value.subarray(at * size, (at + 1) * size),
  )
}

function strings(value: Buffer): string[] {
  const found: string[] = []
  for (let at = 0; at < value.length;) {
    const end = at + 1 + (value[at] as number)
    if (end > value.length) throw malformed('alpn')
    found.push(readableText(value.subarray(at + 1, end)))
    at = end
  }
  return found
}

// DNS messages: encodes the query of a monitor, and decodes its answer as untrusted input
// (RFC 1035, 4; RFC 6891 for EDNS; RFC 8914 for extended errors; RFC 5001 for NSID).
import {
  className,
  DNS_CLASSES,
  dnsTypeName,
  extendedErrorName,
  rcodeName,
} from '../../contract/dns/parameters.ts'
import { readRecordData } from './rdata.ts'
import { DnsReader, MalformedMessage } from './reader.ts'
import { readableText } from './text.ts'

const HEADER_BYTES = 12
const OPT = 41
const OPTION = { nsid: 3, cookie: 10, keepalive: 11, padding: 12, extendedError: 15 } as const

const QR = 0x8000
const OPCODE = 0x7800
const AA = 0x0400
const TC = 0x0200
const RD = 0x0100
const RA = 0x0080
const AD = 0x0020
const CD = 0x0010
/** In the TTL of OPT (RFC 3225). */
const DO = 0x8000

export interface DnsQuestion {
  /** Wire form. */
  name: Buffer
  type: number
  class: number
  recursionDesired: boolean
  checkingDisabled: boolean
  dnssecOk: boolean
  /** 0 leaves EDNS out. */
  ednsBytes: number
  nsid: boolean
}

/** A query with id 0; the id goes into its first two bytes. */
export function encodeQuery(question: DnsQuestion): Buffer {
  const { name, type, recursionDesired, checkingDisabled, ednsBytes } = question
  const hasEdns = ednsBytes > 0
  const header = Buffer.alloc(HEADER_BYTES)
  // AD asks for AD in the answer, without the signatures that DO would bring (RFC 6840, 5.7).
  header.writeUInt16BE((recursionDesired ? RD : 0) | (checkingDisabled ? CD : 0) | AD, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(hasEdns ? 1 : 0, 10)
  const tail = Buffer.alloc(4)
  tail.writeUInt16BE(type, 0)
  tail.writeUInt16BE(question.class, 2)
  return Buffer.concat([header, name, tail, hasEdns ? encodeOpt(question) : Buffer.alloc(0)])
}

function encodeOpt({ ednsBytes, dnssecOk, nsid }: DnsQuestion): Buffer {
  const opt = Buffer.alloc(nsid ? 15 : 11)
  opt.writeUInt16BE(OPT, 1)
  opt.writeUInt16BE(ednsBytes, 3)
  opt.writeUInt16BE(dnssecOk ? DO : 0, 7)
  if (nsid) {
    opt.writeUInt16BE(4, 9)
    opt.writeUInt16BE(OPTION.nsid, 11)
  }
  return opt
}

/** One record, as assertions and results show it. */
export interface DnsRecord {
  /** Absolute, with the dot at its end. */
  name: string
  type: string
  /** Absent for IN. */
  class?: string
  /** Seconds. */
  TTL: number
  data: string
  /** The parts of the data, where it has several. */
  fields?: Record<string, unknown>
}

/** EDNS data of an answer. */
export interface Edns {
  version: number
  /** The largest datagram that the server accepts. */
  udpBytes: number
  dnssecOk: boolean
  extendedErrors?: { code: number; name: string; text: string }[]
  /** Identifier of the server. */
  nsid?: string
  otherOptions?: number[]
}

/** An answer. The names of RFC 1035 in the form that public JSON interfaces of resolvers use. */
export interface DnsMessage {
  /** The response code by name, with its extension from EDNS. */
  Status: string
  AA: boolean
  TC: boolean
  RD: boolean
  RA: boolean
  AD: boolean
  CD: boolean
  Question: { name: string; type: string; class?: string }[]
  Answer: DnsRecord[]
  Authority: DnsRecord[]
  /** Without EDNS' own record. */
  Additional: DnsRecord[]
  Edns?: Edns
}

/** Kinds of received bytes, with respect to a query. */
export type Reading =
  | { kind: 'answer'; message: DnsMessage }
  /** An answer to the query, but truncated. */
  | { kind: 'truncated' }
  /** Not an answer to this query. */
  | { kind: 'other'; reason: string }
  /** An answer to the query that cannot be decoded. */
  | { kind: 'malformed'; reason: string }

/** Codes with which servers refuse a query without repeating its question. */
const WITHOUT_QUESTION: ReadonlySet<number> = new Set([1, 2, 4, 5])

/** Decodes received bytes as an answer to `query`. Never throws. */
export function readAnswer(bytes: Buffer, query: Buffer): Reading {
  const reason = strangeness(bytes, query)
  if (reason !== undefined) return { kind: 'other', reason }
  if ((bytes.readUInt16BE(2) & TC) !== 0) return { kind: 'truncated' }
  try {
    return { kind: 'answer', message: decode(bytes) }
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error
    return { kind: 'malformed', reason: error.message }
  }
}

/** Why the bytes are no answer to the query, or undefined. */
function strangeness(bytes: Buffer, query: Buffer): string | undefined {
  if (bytes.length < HEADER_BYTES) return 'it is shorter than a header'
  if (bytes[0] !== query[0] || bytes[1] !== query[1]) return 'its ID is not that of the query'
  const flags = bytes.readUInt16BE(2)
  if ((flags & QR) === 0) return 'it is a query'
  if ((flags & OPCODE) !== 0) return 'its opcode is not that of the query'
  const questions = bytes.readUInt16BE(4)
  if (questions === 0 && WITHOUT_QUESTION.has(flags & 15)) return undefined
  return questions === 1 && hasQuestionOf(bytes, query)
    ? undefined
    : 'its question is not that of the query'
}

/** Names are the same in capital and small letters. */
function hasQuestionOf(bytes: Buffer, query: Buffer): boolean {
  let nameEnd = HEADER_BYTES
  // A query may be cut short.
  for (let length = query[nameEnd]; length !== 0; length = query[nameEnd]) {
    if (length === undefined) return false
    nameEnd += length + 1
  }
  nameEnd++
  const nameOf = (message: Buffer) =>
    message
      .toString('latin1', HEADER_BYTES, nameEnd)
      .replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
  const restOf = (message: Buffer) => message.subarray(nameEnd, nameEnd + 4)
  return nameOf(bytes) === nameOf(query) && restOf(bytes).equals(restOf(query))
}

function decode(bytes: Buffer): DnsMessage {
  const flags = bytes.readUInt16BE(2)
  const reader = new DnsReader(bytes)
  const message: DnsMessage = {
    Status: '',
    AA: (flags & AA) !== 0,
    TC: (flags & TC) !== 0,
    RD: (flags & RD) !== 0,
    RA: (flags & RA) !== 0,
    AD: (flags & AD) !== 0,
    CD: (flags & CD) !== 0,
    Question: [],
    Answer: [],
    Authority: [],
    Additional: [],
  }
  const count = (at: number) => bytes.readUInt16BE(at)
  for (let left = count(4); left > 0; left--) message.Question.push(readQuestion(reader))
  const extended: Extended = { rcode: flags & 15 }
  for (let left = count(6); left > 0; left--) readRecord(reader, message.Answer)
  for (let left = count(8); left > 0; left--) readRecord(reader, message.Authority)
  for (let left = count(10); left > 0; left--) readRecord(reader, message.Additional, extended)
  message.Status = rcodeName(extended.rcode)
  if (extended.edns !== undefined) message.Edns = extended.edns
  return message
}

function readQuestion(reader: DnsReader): DnsMessage['Question'][number] {
  const asked = { name: reader.name(), type: dnsTypeName(reader.u16()) }
  const number = reader.u16()
  return number === DNS_CLASSES.IN ? asked : { ...asked, class: className(number) }
}

interface Extended {
  rcode: number
  edns?: Edns
}

function readRecord(reader: DnsReader, section: DnsRecord[], extended?: Extended): void {
  const name = reader.name()
  const type = reader.u16()
  const classNumber = reader.u16()
  const ttl = reader.u32()
  const length = reader.u16()
  const end = reader.at + length
  if (end > reader.end) throw new MalformedMessage('the data of a record is truncated')
  const whole = reader.end
  reader.end = end
  if (type === OPT) readOpt(reader, { name, classNumber, ttl }, extended)
  else {
    const isInternet = classNumber === DNS_CLASSES.IN
    const { data, fields } = readRecordData(type, isInternet, reader)
    // RFC 2181, 8: with the highest bit set it counts as 0.
    const record: DnsRecord = {
      name,
      type: dnsTypeName(type),
      TTL: ttl > 0x7fffffff ? 0 : ttl,
      data,
    }
    if (!isInternet) record.class = className(classNumber)
    if (fields !== undefined) record.fields = fields
    section.push(record)
  }
  if (reader.at !== end)
    throw new MalformedMessage('the data of a record is longer than its type allows')
  reader.end = whole
}

function readOpt(
  reader: DnsReader,
  { name, classNumber, ttl }: { name: string; classNumber: number; ttl: number },
  extended: Extended | undefined,
): void {
  if (name !== '.' || extended === undefined || extended.edns !== undefined) {
    throw new MalformedMessage('the OPT record is in the wrong section, or there are two')
  }
  extended.rcode |= (ttl >>> 24) << 4
  const edns: Edns = {
    version: (ttl >>> 16) & 255,
    udpBytes: classNumber,
    dnssecOk: (ttl & DO) !== 0,
  }
  while (reader.at < reader.end) readOption(reader.u16(), reader.readBytes(reader.u16()), edns)
  extended.edns = edns
}

function readOption(code: number, value: Buffer, edns: Edns): void {
  if (code === OPTION.nsid) edns.nsid = readableText(value)
  else if (code === OPTION.extendedError && value.length >= 2) {
    const number = value.readUInt16BE()
    // RFC 8914, 2: some servers end the text with a zero byte.
    const text = readableText(value.subarray(2)).replace(/\\000$/, '')
    edns.extendedErrors ??= []
    edns.extendedErrors.push({ code: number, name: extendedErrorName(number), text })
  } else (edns.otherOptions ??= []).push(code)
}

// TLS versions that a server accepts: sends a ClientHello for each and reads the ServerHello. No handshake is
// finished, so this works for versions that our OpenSSL no longer supports.
import { randomBytes } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import { TLS_VERSIONS } from './definition.ts'
import { type SignedTimestamp, timestampList } from '../../network/tls/certificate-structure.ts'
import type { TlsVersion } from './baseline.ts'
import { withDeadline } from '../../network/deadline.ts'
import { type Attempt, reachTls } from './connection.ts'
import { isFailure } from '../../network/target-failure.ts'
import { Received } from '../../network/tcp-received.ts'

/** Result of the probes. */
export interface OfferedVersions {
  /** Accepted ones, oldest first. */
  versions: TlsVersion[]
  /** Versions without an answer in time. */
  undecided: TlsVersion[]
  /** Timestamps that the server sends in its TLS 1.2 handshake. */
  timestamps: SignedTimestamp[]
}

/** Time for all versions. Milliseconds. */
export const VERSIONS_MS_MAX = 5000

/** TLS 1.0 in messages; the next version has the next number. */
const OLDEST = 0x0301

/** Probes all versions in parallel, each on its own connection. Rejects when the run is cancelled. */
export async function offeredVersions(attempt: Attempt): Promise<OfferedVersions> {
  const found: OfferedVersions = { versions: [], undecided: [], timestamps: [] }
  const answers = await withDeadline(attempt.context.signal, VERSIONS_MS_MAX, (signal) =>
    Promise.all(TLS_VERSIONS.map((_, at) => ask(attempt, OLDEST + at, signal))),
  )
  for (const [at, version] of TLS_VERSIONS.entries()) {
    const answer = answers[at]
    if (answer === undefined) found.undecided.push(version)
    else if (answer !== 'refused') {
      found.versions.push(version)
      if (answer.timestamps !== undefined) found.timestamps = answer.timestamps
    }
  }
  return found
}

type Answer = 'refused' | { timestamps?: SignedTimestamp[] }

async function ask(
  attempt: Attempt,
  version: number,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const { name, alpn } = attempt.plan
  let received: Received | undefined
  let socket: Socket | undefined
  try {
    const apart: Attempt = {
      ...attempt,
      progress: { phase: 'dns' },
      facts: { phases: { totalMs: 0 } },
    }
    const reached = await reachTls(apart, signal)
    socket = reached.socket
    received = new Received(reached.where, signal)
    received.attach(socket)
    // An earlier dialogue leaves the socket paused.
    socket.resume()
    socket.write(clientHello(version, name, alpn))
    for (;;) {
      const answer = received.bytes === 0 ? undefined : readServerHello(received.content(), version)
      if (answer !== undefined) return answer
      if (received.ended !== undefined) return 'refused'
      await received.more()
    }
  } catch (error) {
    // A cancelled run ends here; any other error, or the deadline, leaves this version undecided.
    if (!isFailure(error)) throw error
    return undefined
  } finally {
    received?.close()
    socket?.destroy()
  }
}

/** Cipher suites of servers of the last thirty years, strong ones first. */
const SUITES = [
  0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc009, 0xc013, 0xc00a,
  0xc014, 0xc023, 0xc027, 0xc024, 0xc028, 0x009e, 0x009f, 0xccaa, 0x0033, 0x0039, 0x0067, 0x006b,
  0x009c, 0x009d, 0x002f, 0x0035, 0x003c, 0x003d, 0x0041, 0x0084, 0x0045, 0x0088, 0x0096, 0xc008,
  0xc012, 0x0016, 0x000a, 0xc007, 0xc011, 0x0005, 0x0004, 0x0009, 0xc006, 0xc010, 0x003b, 0x0002,
  0x0001, 0x00ff,
]
const GROUPS = [0x001d, 0x0017, 0x0018, 0x0019, 0x0100, 0x0101]
const SIGNATURES = [
  0x0403, 0x0503, 0x0603, 0x0807, 0x0808, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0203,
  0x0201, 0x0202,
]

/** A ClientHello for this version alone (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2), in its record. */
function clientHello(version: number, name: string, alpn: readonly string[] = []): Buffer {
  const isNew = version === 0x0304
  const extensions: Buffer[] = []
  if (isIP(name) === 0) {
    extensions.push(extension(0, vector(2, Buffer.from([0]), vector(2, Buffer.from(name)))))
  }
  extensions.push(
    extension(10, vector(2, ...GROUPS.map(uint16))),
    extension(11, vector(1, Buffer.from([0]))),
    extension(18),
    extension(23),
  )
  if (version >= 0x0303) extensions.push(extension(13, vector(2, ...SIGNATURES.map(uint16))))
  if (alpn.length > 0) {
    const names = alpn.map((one) => vector(1, Buffer.from(one)))
    extensions.push(extension(16, vector(2, ...names)))
  }
  // Without a key share the server requests one: that shows the version.
  if (isNew) extensions.push(extension(43, vector(1, uint16(version))), extension(51, vector(2)))
  const body = Buffer.concat([
    uint16(Math.min(version, 0x0303)),
    randomBytes(32),
    vector(1, isNew ? randomBytes(32) : Buffer.alloc(0)),
    vector(2, ...SUITES.map(uint16)),
    vector(1, Buffer.from([0])),
    vector(2, ...extensions),
  ])
  const message = Buffer.concat([Buffer.from([1, 0]), vector(2, body)])
  return Buffer.concat([Buffer.from([22]), uint16(0x0301), vector(2, message)])
}

function uint16(value: number): Buffer {
  return Buffer.from([value >> 8, value & 0xff])
}

function vector(lengthBytes: 1 | 2, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const length = lengthBytes === 1 ? Buffer.from([content.length]) : uint16(content.length)
  return Buffer.concat([length, content])
}

function extension(type: number, content: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([uint16(type), vector(2, content)])
}

const MESSAGE_BYTES_MAX = 16_384
const RECORD_BYTES_MAX = 16_384 + 2048

/**
 * Reads the server's answer: `refused` for an alert, another version, or no TLS at all; undefined while the
 * answer is incomplete. Never throws.
 */
export function readServerHello(bytes: Buffer, version: number): Answer | undefined {
  const isRecord = (at: number) => bytes[at] === 22 && (bytes[at + 1] ?? 3) === 3
  if (!isRecord(0)) return 'refused'
  const pieces: Buffer[] = []
  for (let at = 0; at + 5 <= bytes.length && isRecord(at);) {
    const length = bytes.readUInt16BE(at + 3)
    // Fragments are not empty (RFC 8446, 5.1): a server could send them for ever.
    if (length === 0 || length > RECORD_BYTES_MAX) return 'refused'
    pieces.push(bytes.subarray(at + 5, at + 5 + length))
    at += 5 + length
    if (at > MESSAGE_BYTES_MAX + RECORD_BYTES_MAX) break
  }
  const message = Buffer.concat(pieces)
  if (message.length < 4) return undefined
  const end = 4 + message.readUIntBE(1, 3)
  if (message[0] !== 2 || end > MESSAGE_BYTES_MAX) return 'refused'
  return message.length < end ? undefined : helloOf(message.subarray(4, end), version)
}

function helloOf(body: Buffer, version: number): Answer {
  if (body.length < 35) return 'refused'
  let chosen = body.readUInt16BE(0)
  const answer: Exclude<Answer, 'refused'> = {}
  // Random, session id, cipher suite, compression.
  let at = 35 + (body[34] as number) + 3
  if (at + 2 <= body.length) at += 2
  while (at + 4 <= body.length) {
    const type = body.readUInt16BE(at)
    const length = body.readUInt16BE(at + 2)
    const content = body.subarray(at + 4, at + 4 + length)
    if (content.length < length) return 'refused'
    if (type === 43 && length === 2) chosen = content.readUInt16BE(0)
    else if (type === 18) answer.timestamps = timestampList(content)
    at += 4 + length
  }
  return chosen === version ? answer : 'refused'
}

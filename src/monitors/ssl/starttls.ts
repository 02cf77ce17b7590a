// STARTTLS and its equivalents: requests TLS in the server's own protocol, before the handshake. Each protocol
// is a table of expected answers and messages to send.
import { isIPv6, type Socket } from 'node:net'
import { SSL_LIMITS, type SslCode, type StartTlsProtocol } from './definition.ts'
import { excerpt } from '../../contract/failure.ts'
import type { Progress } from '../../network/dial.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'
import { readableBytes, Received } from '../../network/tcp-received.ts'

/** Reads an answer so far: incomplete, its bytes if it is the expected one, or a refusal. */
type Evaluated = 'more' | { bytes: number } | 'refused'

/** Waits for an answer, then sends a message; none after the last answer. */
interface Step {
  say?: (socket: Socket) => string | Buffer
  evaluate: (answer: Buffer) => Evaluated
}

/** SSLRequest (PostgreSQL, 54.2): its length and the code 80877103. */
const POSTGRESQL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/** ExtendedRequest with the name of StartTLS (RFC 4511, 4.14.1), message 1. */
const LDAP_REQUEST = Buffer.concat([
  Buffer.from([0x30, 0x1d, 0x02, 0x01, 0x01, 0x77, 0x18, 0x80, 0x16]),
  Buffer.from('1.3.6.1.4.1.1466.20037'),
])

const STEPS: Record<StartTlsProtocol, readonly Step[]> = {
  // RFC 3207
  SMTP: [
    { evaluate: replies('220') },
    {
      say: (socket) => `EHLO ${ownName(socket)}\r\n`,
      evaluate: replies('250', /^250[- ]STARTTLS\b/im),
    },
    { say: () => 'STARTTLS\r\n', evaluate: replies('220') },
  ],
  // RFC 4217
  FTP: [{ evaluate: replies('220') }, { say: () => 'AUTH TLS\r\n', evaluate: replies('234') }],
  // RFC 3501, 6.2.1
  IMAP: [
    { evaluate: lines(/^\* OK/i, /^\* (?:BYE|PREAUTH)/i) },
    { say: () => 'a1 STARTTLS\r\n', evaluate: lines(/^a1 OK/i, /^(?:a1 (?!OK)|\* BYE)/i) },
  ],
  // RFC 2595
  POP3: [
    { evaluate: lines(/^\+OK/i, /^-ERR/i) },
    { say: () => 'STLS\r\n', evaluate: lines(/^\+OK/i, /^-ERR/i) },
  ],
  POSTGRESQL: [{ say: () => POSTGRESQL_REQUEST, evaluate: postgresql }],
  LDAP: [{ say: () => LDAP_REQUEST, evaluate: ldap }],
}

/**
 * Runs the dialogue up to the handshake. Rejects with STARTTLS_REFUSED, CONNECTION_…, or the
 * signal's reason. The caller still owns the socket, which is paused for TLS.
 */
export async function startTls(
  socket: Socket,
  protocol: StartTlsProtocol,
  where: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  progress.phase = 'startTls'
  const received = new Received(where, signal)
  received.attach(socket)
  const refused = (what: string, answer: Buffer) => {
    const actual = excerpt(readableBytes(answer.subarray(0, 800)), 200)
    const message = `${where} ${what} (${protocol}): “${actual}”`
    return targetFailure<SslCode>('STARTTLS_REFUSED', message, { where, protocol, actual })
  }
  let used = 0
  try {
    for (const { say, evaluate } of STEPS[protocol]) {
      if (say !== undefined) socket.write(say(socket))
      used += await answerTo(evaluate, received, used, where, refused)
      // Plaintext sent ahead must not be read as data under TLS.
      const ahead = received.content().subarray(used)
      if (ahead.length > 0) throw refused('sent more than the answer to STARTTLS', ahead)
    }
  } finally {
    received.close()
  }
}

/** Reads until the answer is complete; returns its length. */
async function answerTo(
  evaluate: Step['evaluate'],
  received: Received,
  from: number,
  where: string,
  refused: (what: string, answer: Buffer) => TargetFailure,
): Promise<number> {
  for (;;) {
    const answer = received.content().subarray(from)
    const evaluated = answer.length === 0 ? 'more' : evaluate(answer)
    if (evaluated === 'refused') throw refused('refused STARTTLS', answer)
    if (evaluated !== 'more') return evaluated.bytes
    if (answer.length > SSL_LIMITS.startTlsBytesMax)
      throw refused('sent more than the limit before TLS', answer)
    const { ended } = received
    if (typeof ended === 'object') throw new TargetFailure(ended)
    if (ended === 'closed') {
      const message = `${where} closed the connection instead of starting TLS`
      throw targetFailure('CONNECTION_CLOSED', message, { where })
    }
    await received.more()
  }
}

/** A reply of SMTP or FTP: lines with a code, a blank after it in the last one (RFC 5321, 4.2.1). */
function replies(code: string, needed?: RegExp): Step['evaluate'] {
  return (answer) => {
    const text = answer.toString('latin1')
    const last = /^\d{3}(?: .*)?\r?\n/m.exec(text)
    if (last === null) {
      const begins = text.slice(0, 3)
      return /^\d{0,3}$/.test(begins) && code.startsWith(begins) ? 'more' : 'refused'
    }
    const whole = text.slice(0, last.index + last[0].length)
    if (!last[0].startsWith(code) || (needed !== undefined && !needed.test(whole))) return 'refused'
    return { bytes: whole.length }
  }
}

/** The first line with an answer; earlier lines are unsolicited. */
function lines(yes: RegExp, no: RegExp): Step['evaluate'] {
  return (answer) => {
    const text = answer.toString('latin1')
    let from = 0
    for (;;) {
      const end = text.indexOf('\n', from)
      if (end === -1) return 'more'
      const line = text.slice(from, end)
      if (yes.test(line)) return { bytes: end + 1 }
      if (no.test(line) || !line.startsWith('*')) return 'refused'
      from = end + 1
    }
  }
}

function postgresql(answer: Buffer): Evaluated {
  return answer[0] === 0x53 ? { bytes: 1 } : 'refused'
}

/** An ExtendedResponse with resultCode 0 (RFC 4511, 4.12). */
function ldap(answer: Buffer): Evaluated {
  const [tag = 0, first = 0] = answer
  if (tag !== 0x30) return 'refused'
  if (answer.length < 2) return 'more'
  const count = first < 0x80 ? 0 : first & 0x7f
  if (count > 2) return 'refused'
  if (answer.length < 2 + count) return 'more'
  const start = 2 + count
  const length = count === 0 ? first : answer.readUIntBE(2, count)
  if (answer.length < start + length) return 'more'
  // messageID of one byte, then [APPLICATION 24] with the ENUMERATED result first.
  const body = answer.subarray(start, start + length)
  const at = body.indexOf(0x78)
  const result = at < 0 ? -1 : body.indexOf(Buffer.from([0x0a, 0x01]), at)
  return result >= 0 && body[result + 2] === 0 ? { bytes: start + length } : 'refused'
}

/** The address literal of RFC 5321, 4.1.3: the agent may have no host name. */
function ownName({ localAddress = '127.0.0.1' }: Socket): string {
  return isIPv6(localAddress) ? `[IPv6:${localAddress}]` : `[${localAddress}]`
}

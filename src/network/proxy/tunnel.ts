// One CONNECT request on a connection to a proxy (RFC 9110, 9.3.6), without Node's HTTP client: the answer has a head
// and no body, and all bytes after it belong to the tunnel.
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connectionFailure, placeOf } from '../connect-errors.ts'
import { TargetFailure, targetFailure } from '../target-failure.ts'

const HEAD_BYTES_MAX = 16_384
const HEAD_END = Buffer.from('\r\n\r\n')

/**
 * Turns `socket` into a tunnel to the target. Rejects with TargetFailure (PROXY_AUTHENTICATION,
 * PROXY_REFUSED, PROXY_UNREACHABLE; CONNECT_FAILED when the proxy says that it cannot reach the target), or
 * the signal's reason; then the socket is destroyed.
 */
export async function askForTunnel(
  socket: Socket,
  target: { host: string; port: number },
  authorization: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const where = placeOf(target.host.replace(/^\[|\]$/g, ''), target.port)
  const credentials = authorization === undefined ? '' : `Proxy-Authorization: ${authorization}\r\n`
  try {
    signal.throwIfAborted()
    socket.write(`CONNECT ${where} HTTP/1.1\r\nHost: ${where}\r\n${credentials}\r\n`)
    const problem = refusal(await headFrom(socket, signal), where)
    if (problem !== undefined) throw problem
  } catch (error) {
    socket.destroy()
    signal.throwIfAborted()
    if (error instanceof TargetFailure) throw error
    const { message } = connectionFailure(error as Error, 'the proxy')
    throw targetFailure('PROXY_UNREACHABLE', message)
  }
}

/** Resolves when there is something to read, or the end of it. Rejects with the socket's error. */
async function readable(socket: Socket, signal: AbortSignal): Promise<void> {
  const ended = new AbortController()
  const options = { signal: AbortSignal.any([signal, ended.signal]) }
  try {
    await Promise.race(['readable', 'end', 'close'].map((event) => once(socket, event, options)))
  } finally {
    ended.abort()
  }
}

/** Reads the head of an answer. The bytes after it stay in the socket. */
async function headFrom(socket: Socket, signal: AbortSignal): Promise<string> {
  let head: Buffer = Buffer.alloc(0)
  for (;;) {
    // Unlike `data`, `readable` does not switch the stream to flowing mode, so the next reader can choose.
    if (!socket.destroyed && !socket.readableEnded) await readable(socket, signal)
    const chunk = socket.read() as Buffer | null
    if (chunk === null) {
      throw socket.errored ?? targetFailure('PROXY_REFUSED', 'the proxy closed the connection')
    }
    head = Buffer.concat([head, chunk])
    const end = head.indexOf(HEAD_END)
    if (end >= 0) {
      const rest = head.subarray(end + HEAD_END.length)
      if (rest.length > 0) socket.unshift(rest)
      return head.toString('latin1', 0, end)
    }
    if (head.length > HEAD_BYTES_MAX) throw notUnderstood()
  }
}

/** The proxy could be reached, but not the target through it. */
const TARGET_OUT_OF_REACH: ReadonlySet<number> = new Set([502, 503, 504])

function refusal(head: string, where: string): TargetFailure | undefined {
  const line = /^HTTP\/1\.[01] (\d{3})[^\r\n]*/.exec(head)
  if (line === null) return notUnderstood()
  const proxyStatus = Number(line[1])
  if (proxyStatus >= 200 && proxyStatus < 300) return undefined
  const details = { proxyStatus, where }
  if (proxyStatus === 407) {
    return targetFailure(
      'PROXY_AUTHENTICATION',
      'the proxy rejected the credentials (407)',
      details,
    )
  }
  const answer = `the proxy answered ${proxyStatus} to CONNECT ${where}`
  return TARGET_OUT_OF_REACH.has(proxyStatus)
    ? targetFailure('CONNECT_FAILED', answer, details)
    : targetFailure('PROXY_REFUSED', answer, details)
}

function notUnderstood(): TargetFailure {
  return targetFailure('PROXY_REFUSED', 'the proxy’s answer to CONNECT is not HTTP')
}

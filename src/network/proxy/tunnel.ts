// One CONNECT request on a connection to a proxy (RFC 9110, 9.3.6), without Node's HTTP client: the answer has a head
// and no body, and all bytes after it belong to the tunnel.
import type { Socket } from 'node:net'
import { connectionFailure, placeOf } from '../connect-errors.ts'
import { targetFailure, type TargetFailure } from '../target-failure.ts'

const HEAD_BYTES_MAX = 16_384
const HEAD_END = Buffer.from('\r\n\r\n')

/**
 * Turns `socket` into a tunnel to the target. Rejects with TargetFailure (PROXY_AUTHENTICATION,
 * PROXY_REFUSED, PROXY_UNREACHABLE; CONNECT_FAILED when the proxy says that it cannot reach the target), or
 * the signal's reason; then the socket is destroyed.
 */
export function askForTunnel(
  socket: Socket,
  target: { host: string; port: number },
  authorization: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const where = placeOf(target.host.replace(/^\[|\]$/g, ''), target.port)
  return new Promise((resolve, reject) => {
    let head: Buffer = Buffer.alloc(0)
    const settle = () => {
      signal.removeEventListener('abort', onAbort)
      socket.removeListener('readable', onReadable)
      socket.removeListener('end', onEnd)
      socket.removeListener('close', onEnd)
      socket.removeListener('error', onError)
    }
    const fail = (error: Error) => {
      settle()
      socket.destroy()
      reject(error)
    }
    const onReadable = () => {
      let chunk: Buffer | null
      while ((chunk = socket.read() as Buffer | null) !== null) head = Buffer.concat([head, chunk])
      const end = head.indexOf(HEAD_END)
      if (end < 0) {
        if (head.length > HEAD_BYTES_MAX) fail(notUnderstood())
        return
      }
      const problem = refusal(head.toString('latin1', 0, end), where)
      if (problem !== undefined) {
        fail(problem)
        return
      }
      settle()
      const rest = head.subarray(end + HEAD_END.length)
      if (rest.length > 0) socket.unshift(rest)
      resolve()
    }
    const onEnd = () => fail(targetFailure('PROXY_REFUSED', `the proxy closed the connection`))
    const onError = (error: Error) => {
      const { message } = connectionFailure(error, 'the proxy')
      fail(targetFailure('PROXY_UNREACHABLE', message))
    }
    const onAbort = () => fail(signal.reason as Error)
    if (signal.aborted) {
      onAbort()
      return
    }
    signal.addEventListener('abort', onAbort)
    // Unlike `data`, `readable` does not switch the stream to flowing mode, so the next reader can choose.
    socket.on('readable', onReadable)
    socket.on('end', onEnd)
    socket.on('close', onEnd)
    socket.on('error', onError)
    const credentials =
      authorization === undefined ? '' : `Proxy-Authorization: ${authorization}\r\n`
    socket.write(`CONNECT ${where} HTTP/1.1\r\nHost: ${where}\r\n${credentials}\r\n`)
  })
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
    return targetFailure('PROXY_AUTHENTICATION', 'the proxy wants other credentials', details)
  }
  const answer = `the proxy answered ${proxyStatus} to CONNECT ${where}`
  return TARGET_OUT_OF_REACH.has(proxyStatus)
    ? targetFailure('CONNECT_FAILED', answer, details)
    : targetFailure('PROXY_REFUSED', answer, details)
}

function notUnderstood(): TargetFailure {
  return targetFailure('PROXY_REFUSED', 'the proxy’s answer to CONNECT is not HTTP')
}

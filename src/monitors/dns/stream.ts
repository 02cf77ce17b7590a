// A DNS query on a connection, with two bytes of length before each message (RFC 1035, 4.2.2; over TLS RFC 7858).
import type { Socket } from 'node:net'
import { connectionFailure } from '../../network/connect-errors.ts'
import type { Progress } from '../../network/dial.ts'
import { TargetFailure, targetFailure } from '../../network/target-failure.ts'

/** Query and server. */
export interface StreamOrder {
  socket: Socket
  /** The peer, for messages. */
  where: string
  /** With its id. */
  query: Buffer
}

/**
 * Sends the query and resolves with the received message. Rejects with TargetFailure (CONNECTION_…), or the
 * signal's reason. The caller still owns the socket.
 */
export function askOnStream(
  { socket, where, query }: StreamOrder,
  progress: Progress,
  signal: AbortSignal,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason as Error)
      return
    }
    let received: Buffer = Buffer.alloc(0)
    const settle = (error: unknown, message?: Buffer) => {
      signal.removeEventListener('abort', onAbort)
      socket.off('data', onData).off('error', onError).off('close', onEnd).off('end', onEnd)
      if (message === undefined) reject(error)
      else resolve(message)
    }
    const onAbort = () => settle(signal.reason)
    const onError = (error: NodeJS.ErrnoException) => {
      settle(new TargetFailure(connectionFailure(error, where)))
    }
    const onEnd = () => {
      const reason = received.length === 0 ? 'without an answer' : 'within its answer'
      settle(
        targetFailure('CONNECTION_CLOSED', `${where} closed the connection ${reason}`, { where }),
      )
    }
    const onData = (chunk: Buffer) => {
      progress.phase = 'download'
      // At most one message is buffered: 65,535 bytes, and the data after its end.
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
      if (received.length < 2) return
      const end = 2 + received.readUInt16BE(0)
      if (received.length >= end) settle(undefined, received.subarray(2, end))
    }
    signal.addEventListener('abort', onAbort)
    socket.on('data', onData).on('error', onError).on('close', onEnd).on('end', onEnd)
    progress.phase = 'firstByte'
    const framed = Buffer.allocUnsafe(2 + query.length)
    framed.writeUInt16BE(query.length, 0)
    query.copy(framed, 2)
    socket.write(framed)
  })
}

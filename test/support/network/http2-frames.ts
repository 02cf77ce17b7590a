// Hand-made frames of HTTP/2 (RFC 9113) for servers that violate the protocol, and behaviours of such servers.
import type { Socket } from 'node:net'
import type { Behaviour } from '../monitors/tcp-servers.ts'

/** Types of frames. */
export const FRAME = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
}

export const END_STREAM = 1
export const END_HEADERS = 4

/** One frame. */
export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.alloc(0),
  length = payload.length,
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** A section of headers, none of them compressed (RFC 7541, 6.2.2). */
export function section(headers: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(
    headers.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]),
  )
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const head = [127]
  let rest = bytes.length - 127
  for (; rest > 127; rest >>= 7) head.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([...head, rest]), bytes])
}

/** An unsigned number of 32 bits. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** A setting. */
export function setting(id: number, value: number): Buffer {
  return Buffer.concat([Buffer.from([0, id]), uint32(value)])
}

export const SETTINGS = frame(FRAME.settings, 0, 0)

/** Headers that begin an answer of gRPC on the first stream. */
export function answerHeaders(
  more: readonly (readonly [string, string])[] = [],
  flags = END_HEADERS,
) {
  const headers = [[':status', '200'], ['content-type', 'application/grpc'], ...more] as const
  return frame(FRAME.headers, flags, 1, section(headers))
}

/** Trailers that end an answer. */
export function trailers(status = '0') {
  return frame(FRAME.headers, END_HEADERS | END_STREAM, 1, section([['grpc-status', status]]))
}

/** A DATA frame of the first stream. */
export function data(bytes: Uint8Array, flags = 0): Buffer {
  return frame(FRAME.data, flags, 1, bytes)
}

/** A message of gRPC with any head. */
export function message(bytes: Uint8Array, flag = 0, length = bytes.length): Buffer {
  return Buffer.concat([Buffer.from([flag]), uint32(length), bytes])
}

/** Sends these frames after the client's request, then only reads. */
export const answering =
  (...frames: Buffer[]): Behaviour =>
  (socket) => {
    socket.write(SETTINGS)
    onRequest(socket, () => socket.write(Buffer.concat(frames)))
  }

/** Sends the frames repeatedly, as fast as they are read. */
export const repeating =
  (first: readonly Buffer[], ...frames: Buffer[]): Behaviour =>
  (socket) => {
    socket.write(SETTINGS)
    onRequest(socket, () => {
      socket.write(Buffer.concat([Buffer.alloc(0), ...first]))
      const again = Buffer.concat(Array.from({ length: 50 }, () => Buffer.concat(frames)))
      const pour = () => {
        if (socket.destroyed) return
        socket.write(again, () => setImmediate(pour))
      }
      pour()
    })
  }

/** Waits for the HEADERS frame of the first request. */
export function onRequest(socket: Socket, then: () => void): void {
  let received = Buffer.alloc(0)
  let isDone = false
  socket.on('data', (chunk: Buffer) => {
    if (isDone) return
    received = Buffer.concat([received, chunk])
    // The preface has 24 bytes; then come frames.
    let at = 24
    while (at + 9 <= received.length) {
      const type = received[at + 3]
      at += 9 + received.readUIntBE(at, 3)
      if (type !== FRAME.headers) continue
      isDone = true
      then()
      return
    }
  })
}

// A WebSocket server of RFC 6455 that can also violate it. It shares no code with the monitor.
import { createHash } from 'node:crypto'
import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer, type ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { listening, type TestServer } from '../../test-server.ts'

/** The server's side of a connection. */
export interface Peer {
  request: IncomingMessage
  socket: Duplex
  /** Sends a text message, in as many frames as there are parts. */
  send(...parts: (string | Buffer)[]): void
  /** Sends one frame with these first two bytes as they are. */
  frame(first: number, payload: string | Buffer, second?: number): void
  close(code?: number, reason?: string): void
}

/** Behaviour of a server; by default it answers pings and closes. */
export interface Behaviour {
  /** Header lines that add to the usual ones or override them; null omits one. */
  headers?(request: IncomingMessage): Record<string, string | null>
  onOpen?(peer: Peer): void
  onMessage?(peer: Peer, text: string): void
  /** False: the frame is not answered as usual. */
  onControl?(peer: Peer, opcode: number, payload: Buffer): boolean | void
  /** Bytes that go out together with the answer to the handshake. */
  head?: Buffer
  /** A status instead of 101. */
  refuse?: number
}

/** Starts a server on port 0. */
export function startWebSocketServer(
  behaviour: Behaviour = {},
  tls?: ServerOptions,
): Promise<TestServer> {
  const server = tls === undefined ? createHttpServer() : createHttpsServer(tls)
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, early: Buffer) => {
    if (behaviour.refuse !== undefined) {
      socket.end(`HTTP/1.1 ${behaviour.refuse} No\r\nX-Why: because\r\nContent-Length: 0\r\n\r\n`)
      return
    }
    socket.on('error', () => {}).on('end', () => socket.end())
    const peer = peerOf(request, socket)
    socket.write(answerTo(request, behaviour))
    if (behaviour.head !== undefined) socket.write(behaviour.head)
    readFrames(socket, early, (opcode, payload) => onFrame(behaviour, peer, opcode, payload))
    behaviour.onOpen?.(peer)
  })
  return listening(server)
}

/** The answer that a key demands (RFC 6455, 4.2.2). */
export function acceptFor(key: string): string {
  return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
}

/** A frame as a server sends it. */
export function frameOf(first: number, payload: string | Buffer, second?: number): Buffer {
  const data = Buffer.from(payload)
  const { length } = data
  if (second !== undefined) return Buffer.concat([Buffer.from([first, second]), data])
  const short = length < 126 ? length : length < 65_536 ? 126 : 127
  const more = Buffer.alloc(short === 126 ? 2 : short === 127 ? 8 : 0)
  if (short === 126) more.writeUInt16BE(length)
  if (short === 127) more.writeBigUInt64BE(BigInt(length))
  return Buffer.concat([Buffer.from([first, short]), more, data])
}

function answerTo(request: IncomingMessage, behaviour: Behaviour): string {
  const headers: Record<string, string | null> = {
    Upgrade: 'websocket',
    Connection: 'Upgrade',
    'Sec-WebSocket-Accept': acceptFor(request.headers['sec-websocket-key'] ?? ''),
    ...behaviour.headers?.(request),
  }
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value}\r\n`],
  )
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`
}

function peerOf(request: IncomingMessage, socket: Duplex): Peer {
  const frame: Peer['frame'] = (first, payload, second) =>
    void socket.write(frameOf(first, payload, second))
  return {
    request,
    socket,
    frame,
    send(...parts) {
      for (const [at, part] of parts.entries()) {
        frame((at === 0 ? 1 : 0) | (at === parts.length - 1 ? 0x80 : 0), part)
      }
    },
    close(code, reason = '') {
      const payload = Buffer.alloc(code === undefined ? 0 : 2)
      if (code !== undefined) payload.writeUInt16BE(code)
      frame(0x88, Buffer.concat([payload, Buffer.from(reason)]))
    },
  }
}

function onFrame(behaviour: Behaviour, peer: Peer, opcode: number, payload: Buffer): void {
  if (opcode < 8) {
    behaviour.onMessage?.(peer, payload.toString())
    return
  }
  if (behaviour.onControl?.(peer, opcode, payload) === false) return
  if (opcode === 9) peer.frame(0x8a, payload)
  if (opcode === 8) {
    peer.frame(0x88, payload)
    peer.socket.end()
  }
}

/** Reads frames of a client, which must be masked and whole messages. */
function readFrames(
  socket: Duplex | Socket,
  early: Buffer,
  accept: (opcode: number, payload: Buffer) => void,
): void {
  let buffered = Buffer.alloc(0)
  const onData = (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk])
    for (;;) {
      const frame = firstFrame(buffered)
      if (frame === undefined) return
      buffered = buffered.subarray(frame.bytes)
      accept(frame.opcode, frame.payload)
    }
  }
  onData(early)
  socket.on('data', onData)
}

function firstFrame(buffered: Buffer) {
  if (buffered.length < 2) return undefined
  const short = (buffered[1] as number) & 0x7f
  if (((buffered[1] as number) & 0x80) === 0) throw new Error('a client must mask its frames')
  const at = short === 126 ? 4 : short === 127 ? 10 : 2
  if (buffered.length < at + 4) return undefined
  const length =
    short === 126
      ? buffered.readUInt16BE(2)
      : short === 127
        ? Number(buffered.readBigUInt64BE(2))
        : short
  const bytes = at + 4 + length
  if (buffered.length < bytes) return undefined
  const mask = buffered.subarray(at, at + 4)
  const payload = Buffer.from(buffered.subarray(at + 4, bytes))
  for (let i = 0; i < length; i++) payload[i] = (payload[i] as number) ^ (mask[i & 3] as number)
  return { opcode: (buffered[0] as number) & 0x0f, payload, bytes }
}

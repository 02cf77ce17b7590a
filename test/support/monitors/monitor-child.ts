// The process behind monitor-process.ts: executes the commands of its input until the end of it.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { type AnyMonitorType } from '../../../src/monitors/monitor.ts'
import { loadNative } from '../../../src/network/native/native.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { crc32c } from '../../../src/monitors/traceroute/marks.ts'
import { POLL } from '../../../src/network/native/socket-options.ts'
import { testContext } from './monitor-context.ts'
import { startStopwatch } from '../stopwatch.ts'
import type { Ran, RunOptions } from './monitor-process.ts'

type Question =
  | { what: 'run'; definition: Record<string, unknown>; options: RunOptions }
  | { what: 'listen'; protocol: 'tcp' | 'udp' | 'sctp'; host: string; port: number }
  | { what: 'descriptors' }

async function run(definition: Record<string, unknown>, options: RunOptions): Promise<Ran> {
  const type = MONITOR_TYPES.get(String(definition['checkType'])) as AnyMonitorType
  const monitor = type.schema.parse({ id: 'm', name: 'm', ...definition })
  const controller = new AbortController()
  let overrunMs: (() => number) | undefined
  const abort = (reason: Error) => {
    overrunMs = startStopwatch()
    controller.abort(reason)
  }
  const deadlineMs = options.deadlineMs ?? type.deadlineMs(monitor)
  const timers = [setTimeout(() => abort(new DeadlineReached(deadlineMs)), deadlineMs)]
  if (options.cancelMs !== undefined) {
    timers.push(setTimeout(() => abort(new Error('cancelled')), options.cancelMs))
  }
  const context = testContext({ signal: controller.signal, blocked: options.blocked ?? [] })
  const ownMs = startStopwatch()
  const outcome = await type
    .prepare(monitor)(context)
    .then(
      (observation) => ({ observation }),
      (error: Error) => ({ rejected: error.message }),
    )
  const tookMs = ownMs()
  for (const timer of timers) clearTimeout(timer)
  return { ...outcome, tookMs, ...(overrunMs !== undefined && { overrunMs: overrunMs() }) }
}

async function listen(
  protocol: 'tcp' | 'udp' | 'sctp',
  host: string,
  port: number,
): Promise<number> {
  if (protocol === 'sctp') return listenSctp(host.includes(':') ? 'IPv6' : 'IPv4', port)
  if (protocol === 'udp') {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    socket.on('message', (message, { port: from, address }) => socket.send(message, from, address))
    socket.bind(port, host)
    await once(socket, 'listening')
    return socket.address().port
  }
  const server = createServer((socket) => socket.on('error', () => undefined))
  server.listen(port, host)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Answers every INIT to the port with an INIT ACK, and those to others with an ABORT; checksums and all. */
async function listenSctp(family: 'IPv4' | 'IPv6', port: number): Promise<number> {
  const native = await loadNative()
  const socket = native.open({ family, type: 'raw', protocol: 'sctp' })
  native.watch(socket.fd, POLL.in, () => {
    for (let packet = socket.receive(); packet; packet = socket.receive()) {
      const init = packet.bytes.subarray(family === 'IPv4' ? 20 : 0)
      const sum = init.readUInt32LE(8)
      init.writeUInt32LE(0, 8)
      if (init[12] !== 1 || crc32c(init) !== sum) continue
      const reply = Buffer.alloc(init.readUInt16BE(2) === port ? 32 : 16)
      reply.writeUInt16BE(init.readUInt16BE(2), 0)
      reply.writeUInt16BE(init.readUInt16BE(0), 2)
      reply.writeUInt32BE(init.readUInt32BE(16), 4)
      reply[12] = reply.length === 32 ? 2 : 6
      reply.writeUInt16BE(reply.length - 12, 14)
      reply.writeUInt32LE(crc32c(reply), 8)
      socket.send(reply, native.address(packet.from, 0))
    }
  })
  return port
}

function answer(question: Question): Promise<unknown> {
  switch (question.what) {
    case 'run':
      return run(question.definition, question.options)
    case 'listen':
      return listen(question.protocol, question.host, question.port)
    case 'descriptors':
    default:
      return Promise.resolve(readdirSync('/proc/self/fd').length)
  }
}

async function runLine(line: string): Promise<void> {
  const { id, ...question } = JSON.parse(line) as { id: number } & Question
  const said = await answer(question)
  process.stdout.write(`${JSON.stringify({ id, answer: said })}\n`)
}

// Many may run concurrently.
for await (const line of createInterface({ input: process.stdin })) void runLine(line)
process.exit(0)

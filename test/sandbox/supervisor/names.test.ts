// Aim: a name server to which no packet can even be sent, as in a network that leads nowhere, costs a run the answer of
// that server and not its supervisor.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { NameRelay } from '../../../src/sandbox/supervisor/names.ts'

/** Without leave to broadcast nobody can connect a socket to it: the system refuses at once. */
const NOWHERE = '255.255.255.255'
/** The root's name servers are asked for: id 4711, one question. */
const QUESTION = Buffer.from('1267010000010000000000000000020001', 'hex')

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A name server that gives each question back as an answer without any records. */
async function emptyServer(): Promise<number> {
  const server = createSocket('udp4')
  server.on('message', (question, { port, address }) => {
    const answer = Buffer.from(question)
    answer.writeUInt16BE(0x8180, 2)
    server.send(answer, port, address)
  })
  server.bind(0, '127.0.0.1')
  closing.push(() => server.close())
  await once(server, 'listening')
  return server.address().port
}

/** What a relay to these servers answers before it closes the connection. */
async function asked(servers: string[], port: number): Promise<Buffer> {
  const relay = new NameRelay(servers, port)
  closing.push(() => relay.close())
  const socket = connect(await relay.port('127.0.0.1'), '127.0.0.1')
  closing.push(() => socket.destroy())
  const length = Buffer.alloc(2)
  length.writeUInt16BE(QUESTION.length)
  socket.write(Buffer.concat([length, QUESTION]))
  return new Promise((resolve, reject) => {
    socket.once('data', resolve)
    socket.once('close', () => resolve(Buffer.alloc(0)))
    socket.once('error', reject)
  })
}

test('the next name server is asked', async () => {
  const answer = await asked([NOWHERE, '127.0.0.1'], await emptyServer())
  expect(answer.readUInt16BE(2)).toBe(4711)
  expect(answer.readUInt16BE(4)).toBe(0x8180)
})

test('where there is no other, the question stays without an answer', async () => {
  expect(await asked([NOWHERE], 53)).toHaveLength(0)
})

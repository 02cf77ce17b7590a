// Aim: a name server to which no packet can even be sent, as in a network that leads nowhere, costs a run the answer of
// that server and not its supervisor; and of answers the supervisor learns which name an address has, whatever they hold.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { namedAddresses, NameRelay } from '../../../src/sandbox/supervisor/names.ts'

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

const header = (answers: number) => Buffer.from([0, 1, 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0])
const question = Buffer.from('\x04Shop\x04test\0\0\x01\0\x01', 'latin1')
const record = (type: number, data: number[]) =>
  Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 9, 0, data.length, ...data])
const four = record(1, [192, 0, 2, 7])
const six = record(28, [0x20, 1, 0xd, 0xb8, ...Array<number>(11).fill(0), 5])
const alias = record(5, [1, 97, 0])

test('addresses of both families behind an alias are those of the name that was asked for', () => {
  expect(namedAddresses(Buffer.concat([header(3), question, alias, four, six]))).toEqual({
    name: 'shop.test',
    addresses: ['192.0.2.7', '2001:db8::5'],
  })
})

test('an answer that is cut short anywhere is none', () => {
  const whole = Buffer.concat([header(2), question, four, six])
  for (let length = 0; length < whole.length - 16; length++) {
    expect(namedAddresses(whole.subarray(0, length))).toBeUndefined()
  }
})

test('a name of other signs is nobody’s', () => {
  const odd = Buffer.from('\x04a b\n\0\0\x01\0\x01', 'latin1')
  expect(namedAddresses(Buffer.concat([header(1), odd, four]))).toBeUndefined()
})

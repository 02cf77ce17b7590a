// A name server that cannot be reached costs one answer; answers tell the supervisor the names of addresses.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { NameRelay } from '../../../src/sandbox/supervisor/names.ts'

/** Without leave to broadcast nobody can connect a socket to it: the system refuses at once. */
const NOWHERE = '255.255.255.255'
/** The root's name servers are asked for: id 4711, one question. */
const QUESTION = Buffer.from('1267010000010000000000000000020001', 'hex')

/** A name server with these answers. */
async function serverWith(answerTo: (question: Buffer) => Buffer): Promise<number> {
  const server = createSocket('udp4')
  server.on('message', (one, { port, address }) => server.send(answerTo(one), port, address))
  server.bind(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return server.address().port
}

/** What a relay to these servers answers before it closes the connection. */
async function asked(servers: string[], port: number, question = QUESTION) {
  const relay = new NameRelay(servers, port)
  const socket = connect(await relay.port('127.0.0.1'), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  const length = Buffer.alloc(2)
  length.writeUInt16BE(question.length)
  socket.write(Buffer.concat([length, question]))
  const received = await new Promise<Buffer>((resolve, reject) => {
    socket.once('data', resolve)
    socket.once('close', () => resolve(Buffer.alloc(0)))
    socket.once('error', reject)
  })
  return { received, relay }
}

/** The question as an answer without any records. */
function echo(question: Buffer): Buffer {
  const answer = Buffer.from(question)
  answer.writeUInt16BE(0x8180, 2)
  return answer
}

test('the next name server is asked', async () => {
  const port = await serverWith(echo)
  const { received } = await asked([NOWHERE, '127.0.0.1'], port)
  expect(received.readUInt16BE(2)).toBe(4711)
  expect(received.readUInt16BE(4)).toBe(0x8180)
})

const CUT = ['', '1267', '126701000001000000000000', '12670100000100000000000005616263']
test.each(CUT)('a question that is cut short (%s) harms nobody', async (hex) => {
  const port = await serverWith(echo)
  await asked(['127.0.0.1'], port, Buffer.from(hex, 'hex'))
  expect((await asked(['127.0.0.1'], port)).received.readUInt16BE(2)).toBe(4711)
})

test('where there is no other, the question stays without an answer', async () => {
  expect((await asked([NOWHERE], 53)).received).toHaveLength(0)
})

test('a run learns what it asked, and the supervisor which name an address has', async () => {
  const header = Buffer.from('126781800001000300000000', 'hex')
  const question = Buffer.from('\x04Shop\x04test\0\0\x01\0\x01', 'latin1')
  const record = (type: number, data: number[]) =>
    Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 9, 0, data.length, ...data])
  const alias = record(5, [1, 97, 0])
  const six = record(28, [0x20, 1, 0xd, 0xb8, ...Array<number>(11).fill(0), 5])
  const answer = Buffer.concat([header, question, alias, record(1, [192, 0, 2, 7]), six])
  const port = await serverWith(() => answer)
  const asking = Buffer.concat([Buffer.from('126701000001000000000000', 'hex'), question])
  const { received, relay } = await asked(['127.0.0.1'], port, asking)
  expect(received.subarray(2)).toEqual(answer)
  const found = ['192.0.2.7', '2001:db8::5', '192.0.2.8'].map((one) => relay.nameOf(one))
  expect(found).toEqual(['shop.test', 'shop.test', undefined])
})

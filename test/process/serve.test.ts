// A server starts with a clear error or not at all, and closes within its deadline whatever clients do.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { ListenError, serve } from '../../src/process/serve.ts'
import { sendRaw } from '../support/raw-http.ts'
import { startStopwatch } from '../support/stopwatch.ts'

const hello = { fetch: () => new Response('hello') }
const open = (app: { fetch(): Response | Promise<Response> } = hello) =>
  serve({ app, port: 0, variable: 'SOME_PORT', hostname: '127.0.0.1' })

async function connected(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

test('any free port is reported; a port in use or a foreign address names the variable', async () => {
  const served = await open()
  expect(await (await fetch(served.url)).text()).toBe('hello')
  expect(served.url).toBe(`http://127.0.0.1:${served.port}`)
  const given = { app: hello, variable: 'SOME_PORT', hostVariable: 'SOME_HOST' }
  const errorOf = (port: number, hostname: string) =>
    serve({ ...given, port, hostname }).catch((thrown: unknown) => thrown)
  for (const [error, code, message] of [
    [await errorOf(served.port, '127.0.0.1'), 'EADDRINUSE', /SOME_PORT/],
    [await errorOf(0, '192.0.2.1'), 'EADDRNOTAVAIL', /192\.0\.2\.1.*SOME_HOST/],
  ] as const) {
    expect(error).toBeInstanceOf(ListenError)
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) as string })
  }
  await served.close(1000)
})

/** An app whose answer the test gives. */
function openByHand() {
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<Response>()]
  const fetch = () => {
    asked.resolve()
    return answer.promise
  }
  return { asked: asked.promise, answer: answer.resolve, opening: open({ fetch }) }
}

test('close does not wait for an idle keep-alive connection that was busy when it was called', async () => {
  const { asked, answer, opening } = openByHand()
  const served = await opening
  const socket = await connected(served.port)
  socket.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: keep-alive\r\n\r\n')
  await asked
  const closed = served.close(20_000)
  const answered = once(socket, 'data')
  answer(new Response('late'))
  const [data] = (await answered) as [Buffer]
  expect(data.toString()).toContain('200 OK')
  const ownMs = startStopwatch()
  await closed
  expect(ownMs()).toBeLessThan(3000)
  socket.destroy()
})

test('close cuts an endless answer at the deadline', async () => {
  const { asked, opening } = openByHand()
  const served = await opening
  const socket = await connected(served.port)
  const ended = once(socket, 'close')
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  await asked
  await served.close(50)
  await ended
  expect(socket.bytesRead).toBe(0)
})

test.each([
  ['HTTP/1.0 with an empty Host is answered', 'GET /health HTTP/1.0\r\nHost:\r\n\r\n', 200],
  ['HTTP/1.1 without Host is refused', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
])('%s', async (_title, text, status) => {
  const served = await open()
  expect((await sendRaw(text, served)).status).toBe(status)
  await served.close(1000)
})

// Aim: a statement without an answer fails as a lost connection after a time-out.
import { connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { databaseFailure } from '../../src/database/database-failure.ts'
import { IdleWatch } from '../../src/database/idle-watch.ts'
import { useDatabase } from '../support/database/database.ts'

const database = useDatabase()

test('a connection on which an answer is overdue is cut, others stay', async () => {
  const watch = new IdleWatch(20)
  const cut = new Promise<string>((resolve) => {
    const fakeClient = (name: string) =>
      ({ connection: { stream: { destroy: () => resolve(name) } } }) as never
    const answered = fakeClient('answered')
    watch.begin(answered)
    watch.end(answered)
    watch.begin(fakeClient('waiting'))
  })
  expect(await cut).toBe('waiting')
  watch.close()
})

test('a statement on an unresponsive network fails as unavailable', async () => {
  const { hostname, port, pathname, username } = new URL(database().url)
  let isUnresponsive = false
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname)
    client.on('data', (chunk) => isUnresponsive || server.write(chunk))
    server.on('data', (chunk) => isUnresponsive || client.write(chunk))
    client.on('close', () => server.destroy())
    for (const socket of [client, server]) socket.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const { port: through } = proxy.address() as { port: number }
  const address = { url: `postgresql://${username}@127.0.0.1:${through}${pathname}` }
  const unresponsive = openDatabase({
    address,
    applicationName: 'test',
    statementTimeoutMs: 50,
    idleMs: 50,
  })
  await unresponsive.query('select 1')
  isUnresponsive = true
  const error = await unresponsive.query('select 1').catch((failure: unknown) => failure)
  expect(databaseFailure(error)?.kind).toBe('unavailable')
  await unresponsive.close()
  proxy.close()
})

// Aim: a statement to which no answer comes fails as a lost connection, not never.
import { connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/database/database.ts'
import { databaseFailure } from '../../src/database/database-failure.ts'
import { SilenceWatch } from '../../src/database/silence-watch.ts'
import { useDatabase } from '../support/database/database.ts'

const database = useDatabase()

test('a connection on which an answer is overdue is cut, others stay', async () => {
  const watch = new SilenceWatch(20)
  const cut = new Promise<string>((resolve) => {
    const silent = (name: string) =>
      ({ connection: { stream: { destroy: () => resolve(name) } } }) as never
    const answered = silent('answered')
    watch.begin(answered)
    watch.end(answered)
    watch.begin(silent('waiting'))
  })
  expect(await cut).toBe('waiting')
  watch.close()
})

test('a statement on a network that fell silent fails as unavailable', async () => {
  const { hostname, port, pathname, username } = new URL(database().url)
  let isSilent = false
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname)
    client.on('data', (chunk) => isSilent || server.write(chunk))
    server.on('data', (chunk) => isSilent || client.write(chunk))
    client.on('close', () => server.destroy())
    for (const socket of [client, server]) socket.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const { port: through } = proxy.address() as { port: number }
  const address = { url: `postgresql://${username}@127.0.0.1:${through}${pathname}` }
  const silenced = openDatabase({
    address,
    applicationName: 'test',
    statementTimeoutMs: 50,
    silenceMs: 50,
  })
  await silenced.query('select 1')
  isSilent = true
  const error = await silenced.query('select 1').catch((failure: unknown) => failure)
  expect(databaseFailure(error)?.kind).toBe('unavailable')
  await silenced.close()
  proxy.close()
})

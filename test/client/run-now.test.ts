// Aim: `vedette run` follows a run to its end on a real platform's API, cancels on Ctrl-C, and ends with its code.
import { createHash, randomUUID } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { cancelNow, type RunOrder, type RunContext, runNow } from '../../src/client/run-now.ts'
import { createRuns, type Runs } from '../../src/platform/runs/routes.ts'
import { noteArriving, settleArtifact } from '../../src/platform/artifacts/queries.ts'
import * as queries from '../../src/platform/runs/queries/runs.ts'
import { applySettings } from '../support/client/apply-command.ts'
import { useDatabase } from '../support/database/database.ts'
import { eventually } from '../support/eventually.ts'
import { addLocation } from '../support/platform/locations.ts'
import { addAgent, addMonitor } from '../support/platform/monitor-rows.ts'
import { servePublicApi } from '../support/platform/public-api.ts'

const { finishRuns, noteProgress, noteRunStates, assignRuns } = queries
const database = useDatabase()
const db = () => database().database
const stop = new AbortController()
let runs: Runs
let listening: Promise<void>
const { api, addClient } = servePublicApi(database, () => {
  runs = createRuns(db())
  listening = runs.listen({ url: database().url }, stop.signal)
  return { operations: runs.operations }
})
afterAll(async () => {
  stop.abort()
  runs.drain()
  await listening
})

const scene = async () => {
  const client = await addClient({ role: 'Read & Run' })
  const location = await addLocation(db(), client)
  const monitorId = await addMonitor(db(), client.accountId, { locations: [location] })
  const env: Record<string, string> = applySettings(api(), client)
  return { client, location, monitorId, env }
}
type Scene = Awaited<ReturnType<typeof scene>>

/** The command, and what it said. */
const start = (
  { env, monitorId }: Scene,
  order: Partial<RunOrder> = {},
  more: Partial<RunContext> = {},
) => {
  const said = { out: '', err: '' }
  const ctrlC = new AbortController()
  const context = {
    env,
    write: (text: string) => void (said.out += text),
    complain: (text: string) => void (said.err += text),
    colour: false,
    stop: ctrlC.signal,
    ...more,
  }
  const whole = { monitor: monitorId, location: undefined, wait: true, json: false, ...order }
  const code = runNow(whole, context)
  /** Resolves with the match when standard error has it. */
  const line = (pattern: RegExp) =>
    eventually(() => pattern.exec(said.err) ?? undefined, { everyMs: 5, what: String(pattern) })
  return { said, code, line, ctrlC, context }
}

/** An agent that takes the run, and begins it. */
const assign = async ({ location: { id: locationId } }: Scene, run: string) => {
  const from = { locationId, agentId: await addAgent(db(), locationId) }
  await assignRuns(db(), from, [run])
  return { from, begin: () => noteRunStates(db(), from, [{ run, state: 'running' }]) }
}
const REFUSED = { code: 'CONNECT_REFUSED', message: 'connection refused' }
const resultOf = (run: string, monitorId: string, verdict: 'passed' | 'failed' | 'cancelled') => ({
  monitorId,
  slot: 1_760_000_000_000,
  onDemand: run,
  verdict,
  startedAt: 1_760_000_000_000,
  durationMs: 12.5,
  responseTimeMs: 11,
  attempts: 2,
  ...(verdict === 'failed' && { failures: [REFUSED] }),
})

/** A run that an agent has begun, and how the agent ends it. */
const begun = async (order: Partial<RunOrder> = {}, more: Partial<RunContext> = {}) => {
  const one = await scene()
  const command = start(one, order, more)
  const [, run = ''] = await command.line(RUN)
  const { from, begin } = await assign(one, run)
  await begin()
  const finish = (verdict: Parameters<typeof resultOf>[2], fields: object = {}) =>
    finishRuns(db(), from, [{ ...resultOf(run, one.monitorId, verdict), ...fields }])
  return { ...one, ...command, run, from, finish }
}

/** A file that a result announces, and its coming. */
const digest = createHash('sha256').update('{}').digest()
const FILE = { name: 'results.json', contentType: 'application/json' }
const artifacts = [{ ...FILE, bytes: 2, sha256: digest.toString('hex') }]
const bring = async ({ client, location }: Scene, ownerKey: string) => {
  const id = randomUUID()
  const owner = { accountId: client.accountId, locationId: location.id, ownerKey }
  await noteArriving(db(), { id, ...owner, ...FILE, storedAs: id })
  await db().transaction((tx) => settleArtifact(tx, id, { bytes: 2, sha256: digest }))
  return id
}
const RUN = /: queued, run ([0-9a-f-]{36})/

describe('vedette run', () => {
  test.each([
    ['passed', 0],
    ['failed', 1],
    ['cancelled', 4],
  ] as const)('%s ends with %i', async (verdict, code) => {
    const command = await begun()
    await command.line(/: running\n/)
    await command.finish(verdict)
    expect(await command.code).toBe(code)
    for (const part of [verdict, 'the shop', '2 attempts']) expect(command.said.out).toContain(part)
    expect(command.said.out.includes('CONNECT_REFUSED: connection refused')).toBe(code === 1)
  })

  test('shows how far it is while it runs', async () => {
    const { from, run, location, ...command } = await begun()
    const { slugName } = location
    await command.line(/: running\n/)
    const [agent] = await db().query<{ instance: string }>(
      'select instance from agents where id = $1',
      [from.agentId],
    )
    const said = { ...from, id: from.agentId, instance: agent?.instance ?? '' }
    const line = 'shop.spec.ts \u001B[2J'
    await noteProgress(db(), said, [{ run, phase: 'install' }])
    await command.line(new RegExp(`^${slugName}: install\n`, 'm'))
    await noteProgress(db(), said, [{ run, phase: 'test', done: 3, total: 10, line }])
    await command.line(new RegExp(`^${slugName}: test 3/10: shop\\.spec\\.ts +\\[2J\n`, 'm'))
    await command.finish('passed')
    expect(await command.code).toBe(0)
  })

  test.each([
    [true, '"id":"ID","name":"results.json"', '"note":"did not arrive in time"'],
    [false, '\nresults.json: /v1/artifacts/ID\n', '\nresults.json: did not arrive in time\n'],
  ])('waits for files, and says which did not come (json: %s)', async (json, arrived, late) => {
    const command = await begun({ json })
    await command.finish('passed', { artifacts })
    await command.line(/: waits for 1 file of its agent\n/)
    const id = await bring(command, command.run)
    expect(await command.code).toBe(0)
    expect(command.said.out).toContain(arrived.replace('ID', id))
    expect(command.said.err).not.toContain('in time')
    const other = await begun({ json }, { filesWithinMs: 20 })
    await other.finish('failed', { artifacts })
    expect(await other.code).toBe(1)
    expect(other.said.err).toContain(`/v1/checks/${other.monitorId}/runs/${other.run}`)
    expect(other.said.out).toContain(late)
  })

  test('Ctrl-C cancels, once, and the end is shown; while it waits for files, nothing', async () => {
    const command = start(await scene(), { json: true })
    await command.line(RUN)
    command.ctrlC.abort()
    expect(await command.code).toBe(4)
    expect(command.said.err.match(/cancelling/g)).toHaveLength(1)
    expect(JSON.parse(command.said.out)).toMatchObject({ verdict: 'cancelled' })
    const ended = await begun({}, { filesWithinMs: 600_000 })
    await ended.finish('passed', { artifacts })
    await ended.line(/: waits for 1 file/)
    ended.ctrlC.abort()
    expect(await ended.code).toBe(0)
    expect(ended.said.err).not.toContain('cancelling')
  })

  test('runs in every location, or in the one that is named', async () => {
    const one = await scene()
    const other = await addLocation(db(), one.client)
    const locations = [one.location, other]
    const monitorId = await addMonitor(db(), one.client.accountId, { locations })
    const asked = start({ ...one, monitorId }, { wait: false })
    expect(await asked.code).toBe(0)
    expect(asked.said.out.trim().split('\n')).toHaveLength(2)
    const location = other.slugName
    const named = start({ ...one, monitorId }, { wait: false, json: true, location })
    expect(await named.code).toBe(0)
    expect(JSON.parse(named.said.out)).toMatchObject({ location, state: 'queued' })
  })

  test.each([
    ['a wrong key', { VEDETTE_API_KEY: 'wrong-key' }, {}, 2, 'Bad Token'],
    ['no platform', { PLATFORM_URL: 'http://127.0.0.1:1' }, {}, 3, '127.0.0.1:1'],
    ['an unknown monitor', {}, { monitor: randomUUID() }, 2, 'No such check'],
  ])('%s: says why, without the key', async (_, env, order, code, expectedText) => {
    const one = await scene()
    const command = start({ ...one, env: { ...one.env, ...env } }, order)
    expect(await command.code).toBe(code)
    expect(command.said.err).toContain(expectedText)
    expect(command.said.err).not.toContain(one.client.secret)
  })

  test('finds its monitor by its exact name, and else names those that may be meant', async () => {
    const one = await scene()
    const owner = await addClient({ accountId: one.client.accountId })
    const others = Array.from({ length: 101 }, (_, n) => `Shop ${n}`)
    const privateLocations = [one.location.slugName]
    const ids: string[] = []
    for (const name of ['Shop', 'Cart', 'Cart', ...others, 'Front page']) {
      const body = { name, privateLocations, request: { url: 'https://example.org/' } }
      ids.push((await owner.call('POST', '/v1/checks/url', { body })).body.id)
    }
    const asked = async (monitor: string) => {
      const { code, said } = start(one, { monitor, wait: false, json: true })
      return [await code, said.out === '' ? said.err : (JSON.parse(said.out) as object)] as const
    }
    expect(await asked('Shop')).toEqual([0, expect.objectContaining({ checkId: ids[0] })])
    const [code, message] = await asked('Cart')
    expect(code).toBe(2)
    for (const id of ids.slice(1, 3)) expect(message).toContain(id)
    const like = (text: string) => expect.stringMatching(text) as string
    expect(await asked('shop')).toEqual([2, like('unknown monitor “shop”: .*UUID.*mean “Shop')])
    expect(await asked('Ca')).toEqual([2, like('“Ca”: .* known are “Cart”\n')])
    // In none of the names.
    expect(await asked('front-page')).toEqual([2, like('did you mean “Front page”')])
    expect(await asked('nope')).toEqual([2, like('known are .*“Shop')])
  })

  test('says what it waits for, again and again, until it runs', async () => {
    const one = await scene()
    const command = start(one, {}, { waitingEveryMs: 20 })
    const [, run = ''] = await command.line(RUN)
    await command.line(/: queued, waiting for an agent \(\d+ s\)\n/)
    const { from, begin } = await assign(one, run)
    await command.line(/: sent, waiting for a free slot of its agent\n/)
    await command.line(/: sent, waiting for a free slot of its agent \(\d+ s\)\n/)
    await begin()
    await command.line(/: running\n/)
    // Answers are not held any more: it asks on.
    runs.drain()
    await finishRuns(db(), from, [resultOf(run, one.monitorId, 'passed')])
    expect(await command.code).toBe(0)
    expect(command.said.err.split(': running\n')[1]).not.toContain('waits')
  })
})

test('vedette cancel says what became of the run; an unknown one is refused', async () => {
  const one = await scene()
  const { said, code, context } = start(one, { wait: false })
  expect(await code).toBe(0)
  const run = said.out.trim()
  const { begin } = await assign(one, run)
  await begin()
  said.out = ''
  expect(await cancelNow(run, context)).toBe(0)
  expect(said.out).toBe(`run ${run} is being cancelled by its agent\n`)
  expect(await cancelNow(one.monitorId, context)).toBe(2)
  expect(said.err).toContain('No such run')
  expect(await cancelNow('../x', context)).toBe(2)
})

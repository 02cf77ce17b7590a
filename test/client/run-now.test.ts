// Aim: `vedette run` finds its monitor, follows the run to its end on a real platform's API, prints what
// `vedette check` would, cancels once on Ctrl-C, and ends with the exit code for what happened.
import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cancelNow, type RunOrder, type RunContext, runNow } from '../../src/client/run-now.ts'
import { createRuns, type Runs } from '../../src/platform/runs/routes.ts'
import { noteArriving, settleArtifact } from '../../src/platform/artifacts/queries.ts'
import {
  finishRuns,
  noteProgress,
  noteRunStates,
  assignRuns,
} from '../../src/platform/runs/queries/runs.ts'
import { applySettings } from '../support/client/apply-command.ts'
import { useDatabase } from '../support/database/database.ts'
import { addLocation, type TestLocation } from '../support/platform/locations.ts'
import { addAgent, addMonitor } from '../support/platform/monitor-rows.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type PublicApi,
} from '../support/platform/public-api.ts'

const database = useDatabase()
const db = () => database().database
const stop = new AbortController()
let runs: Runs
let api: PublicApi
let listening: Promise<void>

beforeAll(async () => {
  runs = createRuns(db())
  listening = runs.listen({ url: database().url }, stop.signal)
  api = await startPublicApi(db(), {
    operations: runs.operations,
    defaultLimit: { limit: 1e8, windowS: 60 },
  })
})
afterAll(async () => {
  stop.abort()
  runs.drain()
  await listening
  await api.close()
})

interface Scene {
  client: ApiClient
  locations: TestLocation[]
  monitorId: string
  env: Record<string, string>
}

const scene = async (count = 1): Promise<Scene> => {
  const client = await addClient(api, db(), { role: 'Read & Run' })
  const locations: TestLocation[] = []
  for (let left = count; left > 0; left--) {
    locations.push(await addLocation(db(), client))
  }
  const monitorId = await addMonitor(db(), client.accountId, { locations })
  const env: Record<string, string> = applySettings(api, client)
  return { client, locations, monitorId, env }
}

/** The command, and what it said. */
const start = (
  { env, monitorId }: Scene,
  order: Partial<RunOrder> = {},
  more: Partial<RunContext> = {},
) => {
  const said = { out: '', err: '' }
  const listeners = new Set<() => void>()
  const ctrlC = new AbortController()
  const context = {
    env,
    write: (text: string) => {
      said.out += text
    },
    complain: (text: string) => {
      said.err += text
      for (const one of listeners) one()
    },
    colour: false,
    stop: ctrlC.signal,
    ...more,
  }
  const code = runNow(
    { monitor: monitorId, location: undefined, wait: true, json: false, ...order },
    context,
  )
  const line = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve) => {
      const look = () => {
        const match = pattern.exec(said.err)
        if (match === null) return
        listeners.delete(look)
        resolve(match)
      }
      listeners.add(look)
      look()
    })
  return { said, code, line, ctrlC, context }
}

/** Does an agent's part: takes the run and begins it. */
const begin = async (location: TestLocation, run: string) => {
  const from = { locationId: location.id, agentId: await addAgent(db(), location.id) }
  await assignRuns(db(), from, [run])
  await noteRunStates(db(), from, [{ run, state: 'running' }])
  return from
}
const resultOf = (run: string, monitorId: string, verdict: 'passed' | 'failed' | 'cancelled') => ({
  monitorId,
  slot: 1_760_000_000_000,
  onDemand: run,
  verdict,
  startedAt: 1_760_000_000_000,
  durationMs: 12.5,
  responseTimeMs: 11,
  attempts: 2,
  ...(verdict === 'failed' && {
    failures: [{ code: 'CONNECT_REFUSED', message: 'connection refused' }],
  }),
})

/** A run that an agent has begun, and how the agent ends it. */
const begun = async (order: Partial<RunOrder> = {}, more: Partial<RunContext> = {}) => {
  const one = await scene()
  const [location] = one.locations as [TestLocation]
  const command = start(one, order, more)
  const [, run = ''] = await command.line(RUN)
  const from = await begin(location, run)
  const finish = (verdict: Parameters<typeof resultOf>[2], fields: object = {}) =>
    finishRuns(db(), from, [{ ...resultOf(run, one.monitorId, verdict), ...fields }])
  return { ...one, ...command, location, run, from, finish }
}

/** What a result says of a file, and the file's coming. */
const FILE = { name: 'results.json', bytes: 2, contentType: 'application/json' }
const announced = [{ ...FILE, sha256: createHash('sha256').update('{}').digest('hex') }]
const bring = async ({ client, locations }: Scene, run: string) => {
  const id = randomUUID()
  const [location] = locations as [TestLocation]
  await noteArriving(db(), {
    id,
    accountId: client.accountId,
    locationId: location.id,
    ownerKey: run,
    name: FILE.name,
    contentType: FILE.contentType,
    storedAs: id,
  })
  const sha256 = createHash('sha256').update('{}').digest()
  await db().transaction((tx) => settleArtifact(tx, id, { bytes: 2, sha256 }))
  return id
}
const RUN = /: queued, run ([0-9a-f-]{36})/

describe('vedette run', () => {
  test.each([
    { verdict: 'passed' as const, code: 0 },
    { verdict: 'failed' as const, code: 1 },
    { verdict: 'cancelled' as const, code: 4 },
  ])('$verdict ends with $code', async ({ verdict, code }) => {
    const command = await begun()
    await command.line(/: running\n/)
    await command.finish(verdict)
    expect(await command.code).toBe(code)
    expect(command.said.out).toContain(verdict)
    expect(command.said.out).toContain('the shop')
    expect(command.said.out).toContain('2 attempts')
    expect(command.said.out.includes('CONNECT_REFUSED: connection refused')).toBe(code === 1)
  })

  test('shows how far it is while it runs', async () => {
    const { from, run, location, ...command } = await begun()
    await command.line(/: running\n/)
    const [agent] = await db().query<{ instance: string }>(
      'select instance from agents where id = $1',
      [from.agentId],
    )
    const said = { ...from, id: from.agentId, instance: agent?.instance ?? '' }
    const line = 'shop.spec.ts \u001B[2J'
    await noteProgress(db(), said, [{ run, phase: 'install' }])
    await command.line(new RegExp(`^${location.slugName}: install\n`, 'm'))
    await noteProgress(db(), said, [{ run, phase: 'test', done: 3, total: 10, line }])
    await command.line(
      new RegExp(`^${location.slugName}: test 3/10: shop\\.spec\\.ts +\\[2J\n`, 'm'),
    )
    await command.finish('passed')
    expect(await command.code).toBe(0)
  })

  test('says what it waits for, again and again, until it runs', async () => {
    const one = await scene()
    const [location] = one.locations as [TestLocation]
    const command = start(one, {}, { waitingEveryMs: 20 })
    const [, run = ''] = await command.line(RUN)
    await command.line(/: queued, waiting for an agent \(\d+ s\)\n/)
    const from = { locationId: location.id, agentId: await addAgent(db(), location.id) }
    await assignRuns(db(), from, [run])
    await command.line(/: sent, waiting for a free slot of its agent\n/)
    await command.line(/: sent, waiting for a free slot of its agent \(\d+ s\)\n/)
    await noteRunStates(db(), from, [{ run, state: 'running' }])
    await command.line(/: running\n/)
    await finishRuns(db(), from, [resultOf(run, one.monitorId, 'passed')])
    expect(await command.code).toBe(0)
    expect(command.said.err.split(': running\n')[1]).not.toContain('waits')
  })

  test.each([
    { json: true, expectedText: '"id":"ID","name":"results.json"' },
    { json: false, expectedText: '\nresults.json: /v1/artifacts/ID\n' },
  ])('waits for files, and gives their ids (json: $json)', async ({ json, expectedText }) => {
    const command = await begun({ json })
    await command.finish('passed', { artifacts: announced })
    await command.line(/: waits for 1 file of its agent\n/)
    const id = await bring(command, command.run)
    expect(await command.code).toBe(0)
    expect(command.said.out).toContain(expectedText.replace('ID', id))
    expect(command.said.err).not.toContain('in time')
  })

  test.each([
    { json: true, expectedText: '"note":"did not arrive in time"' },
    { json: false, expectedText: '\nresults.json: did not arrive in time\n' },
  ])('says which did not come in time (json: $json)', async ({ json, expectedText }) => {
    const command = await begun({ json }, { filesWithinMs: 20 })
    await command.finish('failed', { artifacts: announced })
    expect(await command.code).toBe(1)
    const { monitorId, run } = command
    expect(command.said.err).toContain(`/v1/checks/${monitorId}/runs/${run}`)
    expect(command.said.out).toContain(expectedText)
  })

  test('Ctrl-C ends the waiting for files, and cancels nothing', async () => {
    const command = await begun({}, { filesWithinMs: 600_000 })
    await command.finish('passed', { artifacts: announced })
    await command.line(/: waits for 1 file/)
    command.ctrlC.abort()
    expect(await command.code).toBe(0)
    expect(command.said.err).not.toContain('cancelling')
  })

  test('runs in every location, or in the one that is named', async () => {
    const one = await scene(2)
    const asked = start(one, { wait: false })
    expect(await asked.code).toBe(0)
    expect(asked.said.out.trim().split('\n')).toHaveLength(2)
    const location = one.locations[1]?.slugName ?? ''
    const named = start(one, { wait: false, json: true, location })
    expect(await named.code).toBe(0)
    expect(JSON.parse(named.said.out)).toMatchObject({ location, state: 'queued' })
  })

  test('Ctrl-C cancels, once, and the end is shown', async () => {
    const one = await scene()
    const command = start(one, { json: true })
    await command.line(RUN)
    command.ctrlC.abort()
    expect(await command.code).toBe(4)
    expect(command.said.err.match(/cancelling/g)).toHaveLength(1)
    expect(JSON.parse(command.said.out)).toMatchObject({ verdict: 'cancelled' })
  })

  test('a platform that holds no answers any more is asked on', async () => {
    const one = await scene()
    const [location] = one.locations as [TestLocation]
    const command = start(one)
    const [, run = ''] = await command.line(RUN)
    runs.drain()
    const from = await begin(location, run)
    await finishRuns(db(), from, [resultOf(run, one.monitorId, 'passed')])
    expect(await command.code).toBe(0)
  })

  test.each([
    ['no key', { VEDETTE_API_KEY: '' }, 2, 'VEDETTE_API_KEY'],
    ['a wrong key', { VEDETTE_API_KEY: 'wrong-key' }, 2, 'Bad Token'],
    ['no platform', { PLATFORM_URL: 'http://127.0.0.1:1' }, 3, '127.0.0.1:1'],
  ])('%s: says why, without the key', async (_, env, code, expectedText) => {
    const one = await scene()
    const command = start({ ...one, env: { ...one.env, ...env } })
    expect(await command.code).toBe(code)
    expect(command.said.err).toContain(expectedText)
    expect(command.said.err).not.toContain(one.client.secret)
  })

  describe('finds its monitor by its name', () => {
    let named: Scene
    const ids = new Map<string, string>()
    beforeAll(async () => {
      named = await scene()
      const { accountId } = named.client
      const owner = await addClient(api, db(), { accountId })
      const privateLocations = named.locations.map(({ slugName }) => slugName)
      const others = Array.from({ length: 101 }, (_, n) => `Shop ${n}`)
      for (const name of ['Shop', 'Cart', 'Cart', ...others]) {
        const body = { name, privateLocations, request: { url: 'https://example.org/' } }
        const made = await owner.call('POST', '/v1/checks/url', { body })
        ids.set(`${name}${ids.has(name) ? ' again' : ''}`, made.body.id)
      }
      named.env['VEDETTE_API_KEY'] = owner.secret
      named.client = owner
    })
    const idOf = (name: string) => ids.get(name) ?? name

    test('exactly, however many others have it in theirs', async () => {
      const asked = start(named, { monitor: 'Shop', wait: false, json: true })
      expect([await asked.code, asked.said.err]).toEqual([0, ''])
      expect(JSON.parse(asked.said.out)).toMatchObject({ checkId: idOf('Shop') })
    })

    test('and names the ids where several have it', async () => {
      const asked = start(named, { monitor: 'Cart', wait: false })
      expect(await asked.code).toBe(2)
      for (const name of ['Cart', 'Cart again']) expect(asked.said.err).toContain(idOf(name))
    })

    test('or says which are like it', async () => {
      const asked = start(named, { monitor: 'car', wait: false })
      expect(await asked.code).toBe(2)
      expect(asked.said.err).toContain('unknown monitor “car”; known are “Cart”, “Cart”')
    })
  })

  test('an unknown monitor is refused', async () => {
    const one = await scene()
    const command = start(one, { monitor: one.client.accountId })
    expect(await command.code).toBe(2)
    expect(command.said.err).toContain('No such check')
  })
})

describe('vedette cancel', () => {
  test('says what became of the run', async () => {
    const one = await scene()
    const [location] = one.locations as [TestLocation]
    const asked = start(one, { wait: false })
    await asked.code
    const run = asked.said.out.trim()
    await begin(location, run)
    const running = start(one, { wait: false })
    await running.code
    running.said.out = ''
    expect(await cancelNow(run, running.context)).toBe(0)
    expect(running.said.out).toBe(`run ${run} is being cancelled by its agent\n`)
  })

  test('an unknown run is refused', async () => {
    const one = await scene()
    const { context, said } = start(one, { wait: false })
    expect(await cancelNow(one.monitorId, context)).toBe(2)
    expect(said.err).toContain('No such run')
    expect(await cancelNow('../x', context)).toBe(2)
  })

  test.each(['run', 'cancel'])('%s without its argument ends with 2', async (command) => {
    expect((await startVedette([command], {}).ended).code).toBe(2)
  })
})

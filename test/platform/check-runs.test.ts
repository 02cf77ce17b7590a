// Aim: a run that somebody asks for gets to one agent, is followed until it ends, is cancelled where
// somebody wants that, and ends exactly once whatever becomes of its agent.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Monitor } from '../../src/contract/monitor.ts'
import { createRuns, type Runs } from '../../src/platform/runs.ts'
import { handOutRuns } from '../../src/platform/run-hand-out.ts'
import { listen } from '../../src/store/notifications.ts'
import { finishRuns, handBackRuns } from '../../src/store/runs.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database.ts'
import { addAgent, addLocation, addMonitor, type LocationRow } from '../support/monitor-rows.ts'
import { addClient, startPublicApi, type ApiClient, type PublicApi } from '../support/public-api.ts'

const SIGNAL = new AbortController()

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const database = useDatabase(server)
  let runs: Runs
  let api: PublicApi
  let listening: Promise<void>
  const told: string[] = []
  const waiting = new Set<() => void>()
  const stop = new AbortController()

  beforeAll(async () => {
    const { database: db, url } = database()
    runs = createRuns({
      database: db,
      keptMs: 86_400_000,
      capable: (needs, abilities) => needs.every((one) => abilities.includes(one)),
      neededWords: (needs) => needs.join(', '),
    })
    const ready = Promise.withResolvers<void>()
    const hearing = listen({
      address: { url },
      channel: 'vedette_agents',
      signal: stop.signal,
      onNews(locationId) {
        if (locationId === undefined) ready.resolve()
        else told.push(locationId)
        for (const one of waiting) one()
      },
    })
    listening = Promise.all([runs.listen({ url }, stop.signal), hearing]).then(() => undefined)
    await ready.promise
    api = await startPublicApi(db, {
      operations: runs.operations,
      defaultLimit: { limit: 1e6, windowS: 60 },
    })
  })
  afterAll(async () => {
    stop.abort()
    await listening
    await api.close()
  })

  const db = () => database().database
  /** Resolves when agents of the location were told something. */
  const heard = (locationId: string) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!told.includes(locationId)) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })

  interface Scene {
    client: ApiClient
    location: LocationRow
    monitorId: string
    agentId: string
    path: string
  }

  const scene = async (options: { activated?: boolean } = {}): Promise<Scene> => {
    const client = await addClient(api, db())
    const location = await addLocation(db(), client.accountId)
    const monitorId = await addMonitor(db(), client.accountId, {
      locations: [location],
      effective: JSON.stringify({ name: 'the shop' }),
      ...options,
    })
    const agentId = await addAgent(db(), location.id)
    return { client, location, monitorId, agentId, path: `/v1/checks/${monitorId}/runs` }
  }
  const ask = async ({ client, path }: Scene) => {
    const { status, body } = await client.call('POST', path, { body: {} })
    expect(status).toBe(201)
    return body.runs[0].id as string
  }
  /** What the agent hears when it syncs. */
  const sync = (
    { location, agentId }: Scene,
    said: { run: string; state: 'waiting' | 'running' }[] = [],
    more: Partial<Parameters<typeof handOutRuns>[1]> = {},
  ) =>
    handOutRuns(db(), {
      locationId: location.id,
      agentId,
      said,
      leaving: false,
      ownerOf: () => agentId,
      open: (effective) => JSON.parse(effective) as Monitor,
      ...more,
    })
  const resultOf = (run: string, { monitorId }: Scene, more: object = {}) => ({
    monitorId,
    slot: 1_760_000_000_000,
    onDemand: run,
    verdict: 'passed' as const,
    startedAt: 1_760_000_000_000.25,
    durationMs: 12.5,
    responseTimeMs: 11,
    attempts: 1,
    ...more,
  })
  const finish = ({ location, agentId }: Scene, result: ReturnType<typeof resultOf>) =>
    finishRuns(db(), { locationId: location.id, agentId }, [result])
  const stale = () => runs.chores[0]?.run(SIGNAL.signal)

  describe('asking', () => {
    test('makes one run for each location, and tells the agents of each', async () => {
      const client = await addClient(api, db())
      const locations = [
        await addLocation(db(), client.accountId),
        await addLocation(db(), client.accountId),
      ]
      const id = await addMonitor(db(), client.accountId, { locations })
      const { status, body } = await client.call('POST', `/v1/checks/${id}/runs`, { body: {} })
      expect(status).toBe(201)
      const slugs = body.runs.map((one: { location: string }) => one.location)
      expect(slugs.toSorted()).toEqual(locations.map((one) => one.slug).toSorted())
      expect(body.runs[0]).toMatchObject({
        checkId: id,
        checkName: 'the shop',
        state: 'queued',
        verdict: null,
        askedBy: 'the Admin key',
      })
      await Promise.all(locations.map((one) => heard(one.id)))
    })

    test('takes the locations that are named, and none but those of the check', async () => {
      const client = await addClient(api, db())
      const [one, two] = [
        await addLocation(db(), client.accountId),
        await addLocation(db(), client.accountId),
      ]
      const other = await addLocation(db(), client.accountId)
      const id = await addMonitor(db(), client.accountId, { locations: [one, two] })
      const path = `/v1/checks/${id}/runs`
      const named = await client.call('POST', path, { body: { locations: [two.slug] } })
      expect(named.body.runs.map((run: { location: string }) => run.location)).toEqual([two.slug])
      const foreign = await client.call('POST', path, { body: { locations: [other.slug] } })
      expect(foreign.status).toBe(400)
      expect(foreign.body.message).toContain(other.slug)
    })

    test('runs what is deactivated, not what is deleted or belongs to others', async () => {
      const off = await scene({ activated: false })
      expect(await ask(off)).toEqual(expect.any(String))
      await db().query('update monitors set deleted_at = now() where id = $1', [off.monitorId])
      expect((await off.client.call('POST', off.path, { body: {} })).status).toBe(404)
      expect((await off.client.call('GET', off.path)).status).toBe(200)
      const stranger = await addClient(api, db())
      expect((await stranger.call('POST', off.path, { body: {} })).status).toBe(404)
      expect((await stranger.call('GET', off.path)).status).toBe(404)
    })

    test.each([
      { role: 'Read Only' as const, status: 403 },
      { role: 'Read & Run' as const, status: 201 },
    ])('$role gets $status', async ({ role, status }) => {
      const one = await scene()
      const { accountId } = one.client
      const client = await addClient(api, db(), { accountId, role })
      expect((await client.call('POST', one.path, { body: {} })).status).toBe(status)
    })

    test('is refused past the open runs that a location may have', async () => {
      const one = await scene()
      await db().query(
        `insert into runs (id, account_id, monitor_id, location_id, state, asked_by)
         select gen_random_uuid(), $1, $2, $3, 'queued', 'x' from generate_series(1, 999)`,
        [one.client.accountId, one.monitorId, one.location.id],
      )
      const answers = await Promise.all(
        Array.from({ length: 4 }, () => one.client.call('POST', one.path, { body: {} })),
      )
      expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409, 409, 409])
    })

    test('lists the newest first', async () => {
      const one = await scene()
      const ids = [await ask(one), await ask(one), await ask(one)]
      const { body } = await one.client.call('GET', `${one.path}?limit=2`)
      expect(body.entries.map(({ id }: { id: string }) => id)).toEqual([ids[2], ids[1]])
      const { body: rest } = await one.client.call('GET', `${one.path}?nextId=${body.nextId}`)
      expect(rest.entries.map(({ id }: { id: string }) => id)).toEqual([ids[0]])
    })
  })

  describe('an agent', () => {
    test('is told until it names the run, and its result is shown', async () => {
      const one = await scene()
      const id = await ask(one)
      expect(await sync(one)).toEqual({
        runs: [{ run: id, monitor: { name: 'the shop' } }],
        cancel: [],
      })
      expect((await sync(one)).runs).toHaveLength(1)
      expect((await sync(one, [{ run: id, state: 'waiting' }])).runs).toEqual([])
      expect((await sync(one)).runs).toEqual([])
      await sync(one, [{ run: id, state: 'running' }])
      expect((await one.client.call('GET', `${one.path}/${id}`)).body.state).toBe('running')
      const failures = [{ code: 'CONNECT_REFUSED', message: 'refused' }]
      const artifacts = [
        { name: 'trace.zip', bytes: 3, sha256: 'a'.repeat(64), contentType: 'application/zip' },
      ]
      const more = { verdict: 'failed' as const, failures, artifacts }
      expect(await finish(one, resultOf(id, one, more) as never)).toEqual(['recorded'])
      const { body } = await one.client.call('GET', `${one.path}/${id}`)
      expect(body).toMatchObject({
        state: 'finished',
        verdict: 'failed',
        result: { durationMs: 12.5, responseTimeMs: 11, attempts: 1, failures, observed: null },
        artifacts: [{ name: 'trace.zip', state: 'awaited', id: null }],
      })
      expect((await sync(one)).cancel).toEqual([])
    })

    test('is given what is its own alone, and nothing when it leaves', async () => {
      const one = await scene()
      await ask(one)
      expect((await sync(one, [], { ownerOf: () => randomUUID() })).runs).toEqual([])
      expect((await sync(one, [], { leaving: true })).runs).toEqual([])
      expect((await sync(one)).runs).toHaveLength(1)
    })

    test('is one of those that ask at once', async () => {
      const one = await scene()
      await ask(one)
      const agents = await Promise.all(
        Array.from({ length: 5 }, () => addAgent(db(), one.location.id)),
      )
      const answers = await Promise.all(
        agents.map((agentId) => sync({ ...one, agentId }, [], { ownerOf: () => agentId })),
      )
      expect(answers.map(({ runs: told }) => told.length).toSorted((a, b) => a - b)).toEqual([0, 0, 0, 0, 1])
    })

    test('that was lost hands its run to another, and the first result stays', async () => {
      const one = await scene()
      const id = await ask(one)
      await sync(one)
      await sync(one, [{ run: id, state: 'running' }])
      await db().query(`update agents set state = 'lost' where id = $1`, [one.agentId])
      await stale()
      const second = { ...one, agentId: await addAgent(db(), one.location.id) }
      expect((await sync(second)).runs).toHaveLength(1)
      // The first one is back and hears that the run is no more its own.
      expect((await sync(one, [{ run: id, state: 'running' }])).cancel).toEqual([id])
      expect(await finish(one, resultOf(id, one))).toEqual(['recorded'])
      const other = resultOf(id, one, { verdict: 'failed' })
      expect(await finish(second, other)).toEqual(['known'])
      expect((await one.client.call('GET', `${one.path}/${id}`)).body.verdict).toBe('passed')
      expect((await sync(second, [{ run: id, state: 'running' }])).cancel).toEqual([id])
    })

    test('that restarted is told again of what it does not name', async () => {
      const one = await scene()
      const [lost, kept] = [await ask(one), await ask(one)]
      await sync(one)
      const running = (run: string) => ({ run, state: 'running' as const })
      await sync(one, [running(lost), running(kept)])
      await handBackRuns(db(), { locationId: one.location.id, agentId: one.agentId }, [kept])
      const { runs: told } = await sync(one, [running(kept)])
      expect(told.map(({ run }) => run)).toEqual([lost])
    })

    test('cannot finish runs of other locations or monitors', async () => {
      const [one, other] = [await scene(), await scene()]
      const id = await ask(one)
      expect(await finish(other, resultOf(id, one))).toEqual(['unknown'])
      expect(await finish(one, resultOf(id, other))).toEqual(['unknown'])
      const twice = [resultOf(id, one), resultOf(id, one, { verdict: 'failed' })]
      const from = { locationId: one.location.id, agentId: one.agentId }
      expect(await finishRuns(db(), from, twice)).toEqual(['recorded', 'known'])
    })
  })

  describe('following', () => {
    const timed = async <T>(work: Promise<T>) => {
      const begin = performance.now()
      return { value: await work, ms: performance.now() - begin }
    }

    test('is woken by the change and not by time', async () => {
      const one = await scene()
      const id = await ask(one)
      const following = timed(
        one.client.call('GET', `${one.path}/${id}?waitMs=20000&knownState=queued`),
      )
      const [{ ms, value }] = await Promise.all([following, sync(one)])
      expect(value.body.state).toBe('sent')
      expect(ms).toBeLessThan(10_000)
      const end = timed(one.client.call('GET', `${one.path}/${id}?waitMs=20000&knownState=sent`))
      const [ended] = await Promise.all([end, finish(one, resultOf(id, one))])
      expect(ended.value.body).toMatchObject({ state: 'finished', verdict: 'passed' })
      expect(ended.ms).toBeLessThan(10_000)
    })

    test('does not wait for what is finished or known to be otherwise', async () => {
      const one = await scene()
      const id = await ask(one)
      const path = `${one.path}/${id}?waitMs=25000`
      const other = await timed(one.client.call('GET', `${path}&knownState=running`))
      expect(other.value.body.state).toBe('queued')
      await finish(one, resultOf(id, one))
      const done = await timed(one.client.call('GET', path))
      expect(done.value.body.state).toBe('finished')
      expect(other.ms + done.ms).toBeLessThan(10_000)
    })

    test.each(['waitMs=25001', 'waitMs=-1', 'waitMs=x', 'knownState=gone'])(
      'refuses %s',
      async (query) => {
        const one = await scene()
        const path = `${one.path}/${await ask(one)}?${query}`
        expect((await one.client.call('GET', path)).status).toBe(400)
      },
    )
  })

  describe('cancelling', () => {
    test('ends at once what nobody has, and may be asked again', async () => {
      const one = await scene()
      const path = `${one.path}/${await ask(one)}`
      for (const _ of [1, 2]) {
        const { status, body } = await one.client.call('POST', `${path}/cancel`)
        expect(status).toBe(200)
        expect(body).toMatchObject({ state: 'finished', verdict: 'cancelled', result: null })
      }
      expect((await sync(one)).runs).toEqual([])
    })

    test('tells the agent that has it until its result is there', async () => {
      const one = await scene()
      const id = await ask(one)
      await sync(one)
      await sync(one, [{ run: id, state: 'running' }])
      told.length = 0
      const { body } = await one.client.call('POST', `${one.path}/${id}/cancel`)
      expect(body).toMatchObject({ state: 'running', cancelRequested: true, verdict: null })
      await heard(one.location.id)
      for (const _ of [1, 2]) {
        expect((await sync(one, [{ run: id, state: 'running' }])).cancel).toEqual([id])
      }
      await finish(one, resultOf(id, one, { verdict: 'cancelled' }))
      expect((await sync(one)).cancel).toEqual([])
    })

    test('ends by itself when its agent is lost', async () => {
      const one = await scene()
      const id = await ask(one)
      await sync(one, [])
      await one.client.call('POST', `${one.path}/${id}/cancel`)
      await db().query(`update agents set state = 'lost' where id = $1`, [one.agentId])
      await stale()
      expect((await one.client.call('GET', `${one.path}/${id}`)).body.verdict).toBe('cancelled')
    })

    test('of a foreign or unknown run is refused', async () => {
      const [one, other] = [await scene(), await scene()]
      const id = await ask(one)
      const foreign = await other.client.call('POST', `${other.path}/${id}/cancel`)
      expect(foreign.status).toBe(404)
      const unknown = await one.client.call('POST', `${one.path}/${randomUUID()}/cancel`)
      expect(unknown.status).toBe(404)
      expect((await sync(one)).runs).toHaveLength(1)
    })
  })

  describe('a run that nobody takes', () => {
    const age = (id: string) =>
      db().query(`update runs set queued_at = queued_at - interval '361 s' where id = $1`, [id])
    const readRun = async (one: Scene, id: string) =>
      (await one.client.call('GET', `${one.path}/${id}`)).body

    test('is missed after 6 minutes, not before', async () => {
      const one = await scene()
      const [old, young] = [await ask(one), await ask(one)]
      await age(old)
      await stale()
      expect(await readRun(one, old)).toMatchObject({
        state: 'finished',
        verdict: 'missed',
        missedReason: 'agent-lost',
      })
      expect((await readRun(one, young)).state).toBe('queued')
    })

    test('says what is needed when the agents cannot run it', async () => {
      const one = await scene()
      const id = await ask(one)
      await db().query(`update agents set abilities = '{TCP}' where id = $1`, [one.agentId])
      await age(id)
      await stale()
      expect(await readRun(one, id)).toMatchObject({
        missedReason: 'no-capable-agent',
        needed: 'URL',
      })
    })

    test('takes the result that comes all the same', async () => {
      const one = await scene()
      const id = await ask(one)
      await age(id)
      await stale()
      expect(await finish(one, resultOf(id, one))).toEqual(['recorded'])
      expect(await readRun(one, id)).toMatchObject({ verdict: 'passed', missedReason: null })
      expect(await finish(one, resultOf(id, one))).toEqual(['known'])
    })

    test('of a deleted monitor is cancelled', async () => {
      const one = await scene()
      const id = await ask(one)
      await db().query('update monitors set deleted_at = now() where id = $1', [one.monitorId])
      expect((await sync(one)).runs).toEqual([])
      await stale()
      expect(await readRun(one, id)).toMatchObject({ verdict: 'cancelled' })
    })
  })

  test('finished runs are dropped after their time', async () => {
    const one = await scene()
    const [old, young] = [await ask(one), await ask(one)]
    await finishRuns(db(), { locationId: one.location.id, agentId: one.agentId }, [
      resultOf(old, one),
      resultOf(young, one),
    ])
    await db().query(`update runs set finished_at = finished_at - interval '25 h' where id = $1`, [
      old,
    ])
    await runs.chores[1]?.run(SIGNAL.signal)
    const { body } = await one.client.call('GET', one.path)
    expect(body.entries.map(({ id }: { id: string }) => id)).toEqual([young])
  })
})

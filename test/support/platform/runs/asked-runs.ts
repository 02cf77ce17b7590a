// Runs on demand for tests: a monitor with an agent, the agent's messages, and a client.
import { afterAll, beforeAll, expect } from 'vitest'
import type { Monitor } from '../../../../src/contract/monitor.ts'
import { createRuns, type Runs } from '../../../../src/platform/runs/routes.ts'
import { handOutRuns } from '../../../../src/platform/runs/hand-out.ts'
import { listen } from '../../../../src/database/listen.ts'
import type { useDatabase } from '../../database/database.ts'
import { addLocation, type TestLocation } from '../locations.ts'
import { addAgent, addMonitor } from '../monitor-rows.ts'
import { servePublicApi, type ApiClient } from '../public-api.ts'
import { report } from '../recorded-results.ts'

/** A monitor in a location with an agent, and the client that requests its runs. */
export interface RunScene {
  client: ApiClient
  location: TestLocation
  monitorId: string
  agentId: string
  path: string
}

/** Starts the API with the operations of runs; for a test file or a `describe`. */
export function useRuns(database: ReturnType<typeof useDatabase>) {
  const db = () => database().database
  let runs: Runs
  const { addClient } = servePublicApi(database, () => {
    runs = createRuns(db())
    return { operations: runs.operations }
  })
  let listening: Promise<unknown>
  /** Locations whose agents were notified. */
  const notified: string[] = []
  const stop = new AbortController()
  const { signal } = stop

  beforeAll(async () => {
    const address = { url: database().url }
    const ready = Promise.withResolvers<void>()
    const onNews = (id?: string) => {
      if (id === undefined) ready.resolve()
      else notified.push(id)
    }
    const notifications = listen({ address, channel: 'vedette_agents', signal, onNews })
    listening = Promise.all([runs.listen(address, signal), notifications])
    await ready.promise
  })
  afterAll(async () => {
    stop.abort()
    await listening
  })

  /** Resolves when agents of the location were notified. */
  const whenNotified = (locationId: string) => expect.poll(() => notified).toContain(locationId)

  const scene = async (options: { activated?: boolean } = {}): Promise<RunScene> => {
    const client = await addClient()
    const location = await addLocation(db(), client)
    const effective = JSON.stringify({ name: 'the shop' })
    const placing = { locations: [location], effective, ...options }
    const monitorId = await addMonitor(db(), client.accountId, placing)
    const agentId = await addAgent(db(), location.id)
    return { client, location, monitorId, agentId, path: `/v1/checks/${monitorId}/runs` }
  }
  const ask = async ({ client, path }: RunScene) => {
    const { status, body } = await client.call('POST', path, { body: {} })
    expect(status).toBe(201)
    return body.runs[0].id as string
  }
  /** The runs that the agent receives when it syncs; by default all are its own. */
  const sync = (
    { location, agentId }: RunScene,
    said: { run: string; state: 'waiting' | 'running' }[] = [],
    { leaving = false, owner = agentId } = {},
  ) =>
    handOutRuns(
      db(),
      { locationId: location.id, agentId, said, leaving },
      {
        readAssignment: async () => ({ owner: () => ({ id: owner, abilities: [] }) }),
        open: (effective) => JSON.parse(effective) as Monitor,
      },
    )
  /** A run that its agent has begun. */
  const running = async () => {
    const one = await scene()
    const id = await ask(one)
    await sync(one)
    await sync(one, [{ run: id, state: 'running' }])
    return { one, id }
  }
  const resultOf = (run: string, { monitorId }: RunScene, more: object = {}) => ({
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
  /** Delivers results of an agent; how many were recorded, known before, and refused. */
  const finish = async ({ location, agentId }: RunScene, ...results: unknown[]) => {
    const onRecorded = [runs.onRecorded]
    const given = { at: location, agentId, results, nowMs: Date.now(), onRecorded }
    const { recorded, known, refused } = await report(db(), given)
    return [recorded, known, refused.length]
  }
  const read = async ({ client, path }: RunScene, id: string, query = '') =>
    (await client.call('GET', `${path}/${id}${query}`)).body
  /** Forgets the notifications so far. */
  const forgetNotified = () => (notified.length = 0)
  const stale = () => runs.backgroundJobs[0]?.run(signal)
  const dropOld = () => runs.backgroundJobs[1]?.run(signal)
  const notices = { whenNotified, forgetNotified }
  const steps = { scene, ask, sync, running, resultOf, finish, read, stale, dropOld }
  return { addClient, db, ...notices, ...steps }
}

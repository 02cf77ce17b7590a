// A stand-in for a platform on which files are applied: a real HTTP server that validates requests by the contract,
// stores objects in memory by file name, and answers with the plan.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import {
  ApplyAnswer,
  type ApplyKind,
  type ApplyProblem,
  ApplyRequest,
  type PlannedChange,
} from '../../../src/contract/api/apply.ts'
import { DEFINITIONS } from '../../../src/monitors/definitions.ts'
import { CheckGroup } from '../../../src/contract/api/check-group.ts'

/** The one account of the server, and its key. */
export const APPLY_ACCOUNT = '0f8fad5b-d9cb-469f-a165-70867728950e'
export const APPLY_KEY = 'key-of-the-account'

interface StoredObject {
  kind: ApplyKind
  key: string
  name: string
  text: string
}

/** A server that files can be applied on. */
export interface ApplyServer {
  url: string
  /** Received requests, newest last. */
  requests: ApplyRequest[]
  /** Problems that the next answers report. */
  problems: ApplyProblem[]
  /** Replaces the regular answer. */
  answer: ((response: ServerResponse) => void) | undefined
  close(): Promise<void>
}

/** Starts the server on a free port. */
export async function startApplyServer(): Promise<ApplyServer> {
  const stored = new Map<string, StoredObject>()
  const server = createServer((request, response) => {
    void respond(request, response)
  })
  const made: ApplyServer = {
    url: '',
    requests: [],
    problems: [],
    answer: undefined,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    if (made.answer !== undefined) return made.answer(response)
    const { authorization, 'x-service-account': account } = request.headers
    if (authorization !== `Bearer ${APPLY_KEY}` || account !== APPLY_ACCOUNT) {
      return send(response, 401, { statusCode: 401, error: 'Unauthorized', message: 'Bad Token' })
    }
    const isIt = request.method === 'POST' && request.url === '/v1/apply'
    if (!isIt) return send(response, 404, { statusCode: 404, error: 'Not Found' })
    const asked = ApplyRequest.parse(JSON.parse(gunzipSync(Buffer.concat(chunks)).toString()))
    made.requests.push(asked)
    checkDefinitions(asked)
    const { problems } = made
    const plan = problems.length > 0 ? [] : planOf(asked, stored)
    const applied = !asked.dryRun && problems.length === 0
    return send(response, 200, ApplyAnswer.parse({ plan, applied, problems }))
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return made
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

/** A request that violates the schema is the client's fault: the test gets a 500. */
function checkDefinitions({ groups, monitors }: ApplyRequest): void {
  for (const { definition } of groups) CheckGroup.parse(definition)
  for (const { key, definition } of monitors) {
    const hasReferences = JSON.stringify(definition).includes('{{')
    if (!hasReferences)
      DEFINITIONS.get(String(definition['checkType']))?.schema?.parse({ id: key, ...definition })
  }
}

/** Compares with the stored objects, and stores changes unless it is a dry run. */
function planOf(asked: ApplyRequest, stored: Map<string, StoredObject>): PlannedChange[] {
  const wanted = wantedOf(asked)
  const plan: PlannedChange[] = []
  for (const [place, one] of wanted) {
    const { kind, key, name } = one
    const before = stored.get(place)
    const isSame = before?.text === one.text
    const action = before === undefined ? 'create' : isSame ? 'unchanged' : 'update'
    const changes = before === undefined || isSame ? [] : changesOf(before.text, one.text)
    plan.push({ action, kind, key, name, changes })
    if (!asked.dryRun) stored.set(place, one)
  }
  if (!asked.prune) return plan
  for (const [place, { kind, key, name }] of stored) {
    if (!place.startsWith(`${asked.name} `) || wanted.has(place)) continue
    plan.push({ action: 'delete', kind, key, name, changes: [] })
    if (!asked.dryRun) stored.delete(place)
  }
  return plan
}

function wantedOf({ name: file, groups, monitors, variables, locations }: ApplyRequest) {
  const all: StoredObject[] = [
    ...groups.map(({ key, definition }) => oneOf('group', key, definition['name'], definition)),
    ...monitors.map(({ key, group, definition }) =>
      oneOf('monitor', key, definition['name'], { group, locations, ...definition }),
    ),
    ...variables.map((one) => oneOf('variable', one.key, one.key, one)),
  ]
  return new Map(all.map((one) => [`${file} ${one.kind} ${one.key}`, one]))
}

function oneOf(kind: ApplyKind, key: string, name: unknown, value: object): StoredObject {
  return { kind, key, name: String(name), text: JSON.stringify(value) }
}

function changesOf(before: string, after: string): string[] {
  const [old, now] = [before, after].map((one) => JSON.parse(one) as Record<string, unknown>)
  return Object.keys({ ...old, ...now }).filter(
    (key) => JSON.stringify(old?.[key]) !== JSON.stringify(now?.[key]),
  )
}

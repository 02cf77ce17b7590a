// Writes incidents as fast as answers arrive, records the acknowledged ones, and counts them afterwards.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The account and key of a writer. */
export interface Writer {
  accountId: string
  adminApiKey: string
}

interface Listed {
  entries: { id: string; name: string; incidentUpdates: unknown[] }[]
  nextId: string | null
}

/** The credentials that a platform stored in its folder. */
export function storedCredentials(dataDir: string): Writer {
  return JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Writer
}

async function call(url: string, writer: Writer, body?: unknown): Promise<Response> {
  const headers = {
    authorization: `Bearer ${writer.adminApiKey}`,
    'x-service-account': writer.accountId,
    'content-type': 'application/json',
  }
  const post = { method: 'POST', body: JSON.stringify(body) }
  return fetch(url, { headers, ...(body !== undefined && post) })
}

async function bodyOf<Body>(answer: Response): Promise<Body> {
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Body
}

/** Creates the service that incidents are about; resolves with its id. */
export async function createService(url: string, writer: Writer): Promise<string> {
  const answer = await call(`${url}/v1/status-pages/services`, writer, { name: 'shop' })
  return (await bodyOf<{ id: string }>(answer)).id
}

/** Creates one incident; resolves with the status of the answer, or undefined when there was none. */
export async function createIncident(
  url: string,
  writer: Writer,
  { name, serviceId }: { name: string; serviceId: string },
): Promise<number | undefined> {
  const services = [{ id: serviceId, name: 'shop', accountId: writer.accountId }]
  const incidentUpdates = [{ description: 'Looking into it', status: 'INVESTIGATING' }]
  const body = { name, severity: 'MINOR', services, incidentUpdates }
  try {
    const answer = await call(`${url}/v1/status-pages/incidents`, writer, body)
    // A truncated answer acknowledges nothing.
    await answer.text()
    return answer.status
  } catch {
    return undefined
  }
}

/** Number of incidents by name, and of updates by incident. */
export async function listNames(
  url: string,
  writer: Writer,
): Promise<{ counts: Map<string, number>; updates: Set<number> }> {
  const counts = new Map<string, number>()
  const updates = new Set<number>()
  let next: string | null = null
  do {
    const query: string = next === null ? '' : `&nextId=${encodeURIComponent(next)}`
    const answer = await call(`${url}/v1/status-pages/incidents?limit=100${query}`, writer)
    const page: Listed = await bodyOf(answer)
    for (const { name, incidentUpdates } of page.entries) {
      counts.set(name, (counts.get(name) ?? 0) + 1)
      updates.add(incidentUpdates.length)
    }
    next = page.nextId
  } while (next !== null)
  return { counts, updates }
}

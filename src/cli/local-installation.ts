// Set-up of `vedette start` on its platform, through the public API: a private location, a key for its agent, and
// the monitors of a file.
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { applyFile } from '../client/apply.ts'
import { changesAnything } from '../client/apply-plan.ts'
import type { ApplyTarget } from '../client/config.ts'
import { PlatformError } from '../client/command.ts'
import { askPublicApi, callPublicApi, refusal } from '../client/public-api.ts'
import type { Problem } from '../agent/monitors-file/problems.ts'
import type { LoadedFile } from '../agent/monitors-file/file.ts'
import { makeFolderSync } from '../process/make-folder.ts'

const Stored = z.object({ id: z.string(), slugName: z.string(), apiKey: z.string() })

/** A location of this installation, with the key of its agent. */
export interface LocalLocation extends z.infer<typeof Stored> {
  /** The file with the key. */
  keyFile: string
}

const Location = z.object({
  id: z.string(),
  slugName: z.string(),
  keys: z.array(z.object({ id: z.string(), maskedKey: z.string(), created_at: z.string() })),
})

/**
 * The location of that name with a key for its agent: the stored key of `folder` if the platform still knows it,
 * else a new one. Rejects with PlatformError.
 */
export async function ensureLocation(
  target: ApplyTarget,
  slugName: string,
  folder: string,
): Promise<LocalLocation> {
  const path = '/v1/private-locations'
  const all = await askPublicApi(target, { method: 'GET', path }, z.array(Location))
  const body = { name: slugName, slugName }
  const { id, keys } =
    all.find((one) => one.slugName === slugName) ??
    (await askPublicApi(target, { method: 'POST', path, body }, Location))
  const keyFile = join(folder, 'local-location.json')
  const stored = readStored(keyFile)
  const isKnown = keys.some(({ maskedKey }) => stored?.apiKey.endsWith(maskedKey.slice(-4)))
  if (stored?.id === id && isKnown) return { ...stored, slugName, keyFile }
  // The stored key is lost or unknown to the platform. A location has two keys at most: the older one is deleted.
  const [oldest, newer] = keys.toSorted((a, b) => a.created_at.localeCompare(b.created_at))
  if (oldest !== undefined && newer !== undefined) {
    const old = `${path}/${id}/keys/${oldest.id}`
    const answer = await callPublicApi(target, { method: 'DELETE', path: old })
    if (answer.status >= 300) throw refusal(target, old, answer)
  }
  const call = { method: 'POST', path: `${path}/${id}/keys` } as const
  const { rawKey } = await askPublicApi(target, call, z.object({ rawKey: z.string() }))
  const made = { id, slugName, apiKey: rawKey }
  store(keyFile, made)
  return { ...made, keyFile }
}

function readStored(path: string): z.infer<typeof Stored> | undefined {
  try {
    return Stored.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    // The first start, or the file was removed: a new key is created.
    return undefined
  }
}

/** Writes the file atomically, readable by its owner alone. */
function store(path: string, location: z.infer<typeof Stored>): void {
  makeFolderSync(join(path, '..'), 0o755)
  const draft = `${path}.new`
  writeFileSync(draft, `${JSON.stringify(location, null, 2)}\n`, { mode: 0o600 })
  chmodSync(draft, 0o600)
  renameSync(draft, path)
}

/** Where and how a file is applied. */
export interface InstallationOptions {
  target: ApplyTarget
  /** Path of the file: paths of suite projects are relative to it. */
  path: string
  /** The location of monitors that name none. */
  slugName: string
  /** Aborts the calls. */
  signal: AbortSignal
}

/**
 * Applies the file to the platform: monitors, on the location where they name none, and projects of suites.
 * Monitors of an earlier start that are not in the file any more are deleted. Resolves with the problems of the
 * file; rejects with PlatformError.
 */
export async function applyInstallation(
  file: LoadedFile,
  { target, path, slugName, signal }: InstallationOptions,
): Promise<Problem[]> {
  const order = { path, name: 'vedette start', prune: true, planOnly: false }
  const applied = await applyFile({ ...file, location: slugName }, order, target, signal)
  if ('problems' in applied) return applied.problems
  const { answer } = applied
  if (!answer.applied && changesAnything(answer)) {
    throw new PlatformError('refused', 'the platform did not apply the monitors')
  }
  return []
}

// Capabilities and limits of each agent version, read from the manifests in versions/.
import { readdirSync, readFileSync } from 'node:fs'
import * as z from 'zod'

const limits = z.looseObject({ artifactBytesMax: z.int().positive() })

const currentLimits = z.strictObject({
  /** One artifact, bytes. */
  artifactBytesMax: z.int().positive(),
  /** Body bytes read from the network. */
  bodyBytesMax: z.int().positive(),
  /** Body bytes after unpacking. */
  unpackedBytesMax: z.int().positive(),
  /** Body bytes of all runs together in memory. */
  bodiesBytesMax: z.int().positive(),
  /** Body bytes shown in a result. */
  bodyExcerptBytesMax: z.int().positive(),
  /** Header section of one HTTP answer. */
  headerBytesMax: z.int().positive(),
  /** Redirects followed in one check. */
  redirectsMax: z.int().positive(),
  /** Addresses probed where all are asked for. */
  addressesMax: z.int().positive(),
  /** Bytes read from a TCP target. */
  tcpReadBytesMax: z.int().positive(),
  /** Characters that the names of one DNS message may expand to. */
  dnsTextCharactersMax: z.int().positive(),
  /** Name servers of resolv.conf that are asked. */
  nameServersMax: z.int().positive(),
  /** Alternative names of a certificate shown in a result. */
  altNamesMax: z.int().positive(),
  /** Time for one regular expression on one text. */
  regexMs: z.int().positive(),
  /** Nesting of a JSON body that assertions look into. */
  jsonDepthMax: z.int().positive(),
  /** Values in a JSON body that assertions look into; their memory is what is bounded. */
  jsonValuesMax: z.int().positive(),
  /** One attempt, from start to verdict. */
  attemptMsMax: z.int().positive(),
  /** From so much delay of the agent's event loop on, the times of an attempt may be the agent's own. */
  agentDelayMsMax: z.int().positive(),
  retriesMax: z.int().positive(),
  assertionsMax: z.int().positive(),
  /** Expensive assertions that wait for their turn. */
  assertionsWaitingMax: z.int().positive(),
  /** Heap of the thread in which expensive assertions run. */
  assertionHeapMiBMax: z.int().positive(),
  /** One code bundle, as it is packed. */
  codeBundleBytesMax: z.int().positive(),
  /** Code bundles of an account. */
  codeBundlesMax: z.int().positive(),
  /** Files in a folder that is packed into a code bundle. */
  codeBundleFilesMax: z.int().positive(),
  /** Bytes of code bundles that an agent caches. */
  codeBundlesCacheBytesMax: z.int().positive(),
  /** From starting a run of user code until its command begins. */
  sandboxStartMsMax: z.int().positive(),
  supervisorLateMsMax: z.int().positive(),
  /** Browser and multistep monitors, from start to end. */
  scriptMsMax: z.int().positive(),
  /** Set-up and tear-down scripts of API monitors, each. */
  apiScriptMsMax: z.int().positive(),
  /** Starting what they run in. */
  apiScriptStartMsMax: z.int().positive(),
  apiScriptMemoryBytesMax: z.int().positive(),
  /** Request and answer passed to such a script, and its result, as JSON. */
  apiScriptDataBytesMax: z.int().positive(),
  /** Memory of a script and its browser together. */
  scriptMemoryBytesMax: z.int().positive(),
  /** Processes of a script and its browser together. */
  scriptProcessesMax: z.int().positive(),
  /** Files that a script may write, its traces and videos included. */
  scriptDiskBytesMax: z.int().positive(),
  scriptOutputBytesMax: z.int().positive(),
  /** Report of a script in a result, as JSON. */
  scriptShownBytesMax: z.int().positive(),
  monitorsMax: z.int().positive(),
  monitorsFileBytesMax: z.int().positive(),
  variablesMax: z.int().positive(),
  /** One secret value, in UTF-16 units; of a longer one that a run learns, its first part is known. */
  secretCharactersMax: z.int().positive(),
  /** Secret values of one definition, without those of variables. */
  definitionSecretsMax: z.int().positive(),
  /** Secret values that one run knows: those of its definition and variables, and those that it learns. */
  secretValuesMax: z.int().positive(),
  /** All secret values of one run together, and those of one definition, in UTF-16 units. */
  secretsCharactersMax: z.int().positive(),
  /** Scrubbing the files of one attempt. */
  scrubFilesMsMax: z.int().positive(),
  /** Bytes that those files may have when they are unpacked. */
  scrubUnpackedBytesMax: z.int().positive(),
  /** One run of a check suite: all of it, and its installation alone. */
  suiteMsMax: z.int().positive(),
  suiteInstallMsMax: z.int().positive(),
  /** Processor time of all processes of one run. */
  suiteCpuMsMax: z.int().positive(),
  suiteMemoryBytesMax: z.int().positive(),
  suiteProcessesMax: z.int().positive(),
  suiteOutputBytesMax: z.int().positive(),
  /** All files of one run, packages included. */
  suiteDiskBytesMax: z.int().positive(),
  suiteFilesMax: z.int().positive(),
  /** One project, without its packages. */
  suiteProjectBytesMax: z.int().positive(),
  suiteProjectFilesMax: z.int().positive(),
  /** Cached packages for the next runs of suites. */
  packagesCacheBytesMax: z.int().positive(),
  /** Of what engines make of the code of packages. */
  compiledCacheBytesMax: z.int().positive(),
  /** Since they were used the last time. */
  packagesCacheAgeMsMax: z.int().positive(),
})

const manifest = z.strictObject({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  summary: z.string(),
  checkTypes: z.array(z.string()),
  engines: z.array(z.string()),
  runtimes: z.array(z.string()),
  /** Image name → the types of monitor that it can run. */
  images: z.record(z.string(), z.array(z.string())),
  features: z.array(z.string()),
  limits,
})

/** Capabilities and limits of one agent version. */
export type Manifest = z.infer<typeof manifest>

const folder = new URL('../../versions/', import.meta.url)

/** Orders two versions `<major>.<minor>.<patch>`: negative when `a` is the older one. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number))
  for (let part = 0; part < 3; part++) {
    const difference = (left?.[part] ?? 0) - (right?.[part] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** All manifests, oldest first. */
export const MANIFESTS: readonly Manifest[] = readdirSync(folder)
  .filter((name) => /^\d+\.\d+\.\d+\.json$/.test(name))
  .map((name) => manifest.parse(JSON.parse(readFileSync(new URL(name, folder), 'utf8'))))
  .sort((a, b) => compareVersions(a.version, b.version))

/**
 * The manifest that holds for an agent of `version`: the newest milestone that is not newer than it.
 * Undefined for versions before the first milestone.
 */
export function manifestFor(version: string): Manifest | undefined {
  return MANIFESTS.findLast((one) => compareVersions(one.version, version) <= 0)
}

const newest = MANIFESTS.at(-1)
if (newest === undefined) throw new Error(`no manifest in ${folder.pathname}`)

/** The version of this code. */
export const VERSION: string = newest.version

/** The limits of this code, each with its unit in its name. */
export const LIMITS: z.infer<typeof currentLimits> = currentLimits.parse(newest.limits)

/**
 * How large one artifact of an agent of `version` may be, bytes. A version that is not known, or none,
 * counts as the oldest.
 */
export function artifactBytesMax(version: string | undefined): number {
  const isVersion = /^\d{1,6}\.\d{1,6}\.\d{1,6}$/.test(version ?? '')
  const known = isVersion ? manifestFor(version ?? '') : undefined
  return (known ?? MANIFESTS[0])?.limits.artifactBytesMax ?? LIMITS.artifactBytesMax
}

/** The runtime for scripts that name none: the newest. */
export const DEFAULT_RUNTIME: string = newest.runtimes.toSorted().at(-1) ?? ''

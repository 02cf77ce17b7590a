// Validation as by Kubernetes' API server, without a cluster: TypeScript checks objects against types generated from
// its OpenAPI document and KEDA's. Unknown fields are errors, at every depth.
import { execFile } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clusterTools } from './cluster-tools.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** The common fields of Kubernetes objects. */
export type KubernetesObject = Readonly<Record<string, unknown>>

/** Module of the types of each group; other groups are unknown. */
const MODULES: Readonly<Record<string, string>> = {
  v1: 'kubernetes-models/v1',
  'apps/v1': 'kubernetes-models/apps/v1',
  'policy/v1': 'kubernetes-models/policy/v1',
  'networking.k8s.io/v1': 'kubernetes-models/networking.k8s.io/v1',
  'keda.sh/v1alpha1': '@kubernetes-models/keda/keda.sh/v1alpha1',
}

const STRICT = '--noEmit --pretty false --strict --skipLibCheck --types --target esnext'.split(' ')
const MODULE = '--module nodenext --moduleResolution nodenext'.split(' ')

/** TypeScript's errors about these objects; empty when they are valid. */
export async function strangeIn(objects: readonly KubernetesObject[]): Promise<string> {
  const { folder: packages } = await clusterTools()
  const folder = temporaryFolder()
  symlinkSync(join(packages, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  const lines = objects.map((object, at) => {
    const { apiVersion, kind } = object as { apiVersion: string; kind: string }
    const from = MODULES[apiVersion] ?? `no-types-for/${apiVersion}`
    return `export const ${kind}${at}: import('${from}').I${kind} = ${JSON.stringify(object, null, 2)}\n`
  })
  writeFileSync(join(folder, 'objects.ts'), lines.join(''))
  const tsc = join(import.meta.dirname, '../../../node_modules/.bin/tsc')
  return new Promise((resolve, reject) => {
    execFile(tsc, [...STRICT, ...MODULE, 'objects.ts'], { cwd: folder }, (error, stdout) => {
      if (error !== null && stdout === '') reject(error)
      else resolve(stdout)
    })
  })
}

// Passes additional certificate authorities of the agent (NODE_EXTRA_CA_CERTS) to user code: behind a proxy that
// inspects TLS, no registry and no site could be trusted without them.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'

/**
 * Writes them into a run's own folder, since the run's user may not be able to read the agent's file. Resolves with
 * the variable for the run's environment, or nothing if the agent has no additional authorities.
 */
export async function extraAuthorities(folder: string): Promise<Record<string, string>> {
  const certificates = getCACertificates('extra')
  if (certificates.length === 0) return {}
  await mkdir(folder, { recursive: true })
  const path = join(folder, 'authorities.pem')
  await writeFile(path, certificates.join('\n'))
  return { NODE_EXTRA_CA_CERTS: path }
}

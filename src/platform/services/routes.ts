// Services, which incidents affect and status pages show.
import { randomUUID } from 'node:crypto'
import { Service, ServiceInput } from '../../contract/api/incident.ts'
import type { Database } from '../../database/database.ts'
import {
  deleteService,
  insertService,
  listServices,
  readService,
  renameService,
} from './queries.ts'
import { ApiError } from '../http/errors.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'

const services = new Resource({
  tag: 'Status Page Services',
  path: '/v1/status-pages/services',
  one: { serviceId: idParameter('service') },
  what: 'service',
  schema: Service,
})

/** The operations on services. */
export function serviceOperations(database: Database): DefinedOperation[] {
  return [
    services.pages(
      {
        summary: 'List services',
        description: 'Newest first.',
        listing: 'services',
        id: 'StatusPageServicesPage',
      },
      database,
      listServices,
    ),
    services.create(
      { summary: 'Create a service', body: ServiceInput },
      ({ accountId, body: { name } }) =>
        insertService(database, { id: randomUUID(), accountId, name }),
    ),
    services.read({ summary: 'Read a service' }, ({ accountId, serviceId }) =>
      readService(database, accountId, serviceId),
    ),
    services.replace(
      { summary: 'Rename a service', body: ServiceInput },
      ({ accountId, serviceId: id, body: { name } }) =>
        renameService(database, { id, accountId, name }),
    ),
    services.remove(
      {
        summary: 'Delete a service',
        description: 'Its incidents continue to show it.',
        conflict: 'A status page shows the service',
      },
      async ({ accountId, serviceId }) => {
        const outcome = await database.transaction((tx) => deleteService(tx, accountId, serviceId))
        if (outcome === 'shown') throw new ApiError(409, 'A status page shows this service')
        return outcome === 'deleted'
      },
    ),
  ]
}

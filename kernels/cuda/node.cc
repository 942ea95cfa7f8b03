#include "kernels/cuda/node.h"

#include <cstring>

namespace coxswain::cuda {

const CoxAttr* Node::Find(const char* name, int32_t kind) const {
  for (int32_t i = 0; i < node_.num_attrs; ++i) {
    const CoxAttr& attr = node_.attrs[i];
    if (attr.kind == kind && std::strcmp(attr.name, name) == 0) return &attr;
  }
  return nullptr;
}

int64_t Node::Integer(const char* name, int64_t fallback) const {
  const CoxAttr* attr = Find(name, COX_ATTR_INTEGER);
  return attr == nullptr ? fallback : attr->integer;
}

double Node::Number(const char* name, double fallback) const {
  if (const CoxAttr* attr = Find(name, COX_ATTR_REAL)) return attr->real;
  const CoxAttr* attr = Find(name, COX_ATTR_INTEGER);
  return attr == nullptr ? fallback : static_cast<double>(attr->integer);
}

std::string Node::Text(const char* name, const char* fallback) const {
  const CoxAttr* attr = Find(name, COX_ATTR_TEXT);
  return attr == nullptr ? fallback : attr->text;
}

std::vector<int64_t> Node::List(const char* name) const {
  const CoxAttr* attr = Find(name, COX_ATTR_LIST);
  if (attr == nullptr || attr->count == 0) return {};
  return std::vector<int64_t>(attr->list, attr->list + attr->count);
}

}  // namespace coxswain::cuda
